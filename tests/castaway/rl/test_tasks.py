"""Draws: from the stage or from the failures, never from what is held out, and alike in all processes."""

import pickle
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.ppo import ReplayParams
from castaway.rl.failures import Task
from castaway.rl.tasks import TaskSource
from castaway.tasks.environment import HELD_OUT_START, CurriculumStage, is_held_out

EASY = CurriculumStage("easy", range(0, 1000), ("random",), 0.6, 0.0, 10)
HARD = CurriculumStage("hard", range(HELD_OUT_START - 1000, HELD_OUT_START), ("random", "mcts-3"), 0.5, 0.3, 10)
REPLAY = ReplayParams(share=0.3, capacity=50, mastery=2)


def source(seed: int = 0, replay: ReplayParams = REPLAY) -> TaskSource:
    return TaskSource([EASY, HARD], replay, seed, "random", lambda task_id: "even" if task_id % 2 == 0 else "odd")


def score(task: Task, outcomes: Random) -> tuple[bool, float]:
    """Whether the episode was won, and how well it went."""
    value = outcomes.random()
    return value > 0.5, value


def play(sources: list[TaskSource], steps: int, outcomes: Random, episodes: int = 8) -> list[Task]:
    """Steps of training in as many processes as there are sources; each plays its share of the draws."""
    played = []
    for _ in range(steps):
        draws = [[one.draw() for _ in range(episodes)] for one in sources]
        assert all(drawn == draws[0] for drawn in draws)
        results = [score(task, outcomes) for task in draws[0]]
        reports = [
            sources[k % len(sources)].report(task, *result)
            for k, (task, result) in enumerate(zip(draws[0], results, strict=True))
        ]
        for one in sources:
            one.learn(reports)
        played += draws[0]
    return played


@given(st.integers(0, 10**6), st.integers(1, 25))
def test_processes_agree_and_draw_what_one_would(seed: int, steps: int) -> None:
    three = [source(seed) for _ in range(3)]
    alone = source(seed)
    assert play(three, steps, Random(seed)) == play([alone], steps, Random(seed))
    assert all(one.state() == alone.state() for one in three)


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 12))
def test_it_goes_on_where_it_stopped(seed: int, before: int, then: int) -> None:
    whole, outcomes = source(seed), Random(seed)
    play([whole], before, outcomes)
    hanging = [whole.draw() for _ in range(3)]
    stopped = source(seed + 1)
    stopped.load_state(pickle.loads(pickle.dumps(whole.state())))
    for one in (whole, stopped):
        one.learn([one.report(task, False, 0.25) for task in hanging])
    assert play([stopped], then, Random(9)) == play([whole], then, Random(9))
    assert stopped.state() == whole.state() and stopped.metrics() == whole.metrics()


@given(st.integers(0, 10**6))
def test_draws_are_of_the_stage_or_have_failed_before(seed: int) -> None:
    one, outcomes, failed = source(seed), Random(seed), set()
    for _ in range(200):
        stage = one.curriculum.stage
        task = one.draw()
        assert not is_held_out(task[0])
        assert (task[0] in stage.task_ids and task[1] in stage.seats) or task in failed
        success, value = score(task, outcomes)
        one.learn([one.report(task, success, value)])
        if not success:
            failed.add(task)


def test_a_share_of_the_draws_are_replays_of_the_exact_episode() -> None:
    one = source()
    failures = [one.draw() for _ in range(40)]
    one.learn([one.report(task, False, 0.0) for task in failures])
    replayed = 0
    for _ in range(2000):
        task = one.draw()
        fresh, failed = played(one), task in one.failures
        one.learn([one.report(task, False, 0.0)])
        again = played(one) == fresh
        replayed += again
        assert again <= failed
    assert replayed / 2000 == pytest.approx(0.3, abs=0.03)


def test_an_episode_that_is_drawn_anew_while_it_is_replayed_counts_once() -> None:
    stage = CurriculumStage("one", range(1), ("random",), threshold=1.0, window=100)
    one = TaskSource([stage], ReplayParams(share=0.5, capacity=9, mastery=9), 0, "random")
    drawn = {False: 0, True: 0}
    for _ in range(50):
        tasks = [one.draw() for _ in range(4)]
        fresh = sum(number is not None for *_, numbers in one.state()["own"]["playing"] for number in numbers)
        before = played(one)
        one.learn([one.report(task, False, 0.0) for task in tasks])
        assert played(one) - before == fresh
        drawn[fresh < len(tasks)] += 1
    assert drawn[True], "there were replays"


def played(one: TaskSource) -> int:
    """How many episodes were counted."""
    return sum(tally.played for tally in one.tallies.values())


def test_no_failure_is_drawn_twice_at_a_time() -> None:
    one = source(replay=ReplayParams(share=1.0, capacity=50, mastery=2))
    failures = {one.draw() for _ in range(5)}
    one.learn([one.report(task, False, 0.0) for task in failures])
    drawn = [one.draw() for _ in range(8)]
    assert set(drawn[:5]) == failures and len(set(drawn)) == 8


def test_replays_leave_the_curriculum_and_the_figures_alone() -> None:
    one = source(replay=ReplayParams(share=1.0, capacity=50, mastery=2))
    first = one.draw()
    one.learn([one.report(first, False, 0.5)])
    before = one.curriculum.state(), dict(one.tallies)
    for _ in range(2):
        assert one.draw() == first
        one.learn([one.report(first, True, 1.0)])
    assert (one.curriculum.state(), one.tallies) == before
    assert one.metrics() == {"stage": 1.0, "stage_success_rate": 0.0, "failures": 0.0, "mastered": 1.0}


def test_without_replays_the_draws_are_a_plain_stream() -> None:
    plain = TaskSource(
        [CurriculumStage("all", range(HELD_OUT_START), ("traitor", "crew", "crew"))],
        ReplayParams(share=0.0, capacity=1, mastery=1),
        7,
        "crew",
    )
    random = Random(7)
    for number in range(30):
        task = plain.draw()
        assert task == (random.randrange(HELD_OUT_START), ("traitor", "crew", "crew")[number % 3])
        plain.learn([plain.report(task, False, 0.0)])


def test_the_figures_are_kept_by_kind_and_seat() -> None:
    one, counted = source(), Counter()
    for _ in range(20):
        task = one.draw()
        report = one.report(task, True, 0.75)
        counted[("even" if task[0] % 2 == 0 else "odd", task[1])] += 1
        one.learn([report])
    assert {key: tally.played for key, tally in one.tallies.items()} == counted
    assert all(tally.successes == tally.played and tally.score == 0.75 * tally.played for tally in one.tallies.values())
    assert one.curriculum.stage is HARD


def test_what_was_not_drawn_cannot_be_reported() -> None:
    one = source()
    task = one.draw()
    one.learn([one.report(task, True, 1.0)])
    for wrong in (task, (5, "nobody")):
        with pytest.raises(ValueError, match="was not drawn here, or has been reported before"):
            one.report(wrong, True, 1.0)


def test_a_stage_with_held_out_ids_is_never_drawn_from() -> None:
    one = TaskSource(
        [CurriculumStage("wrong", range(HELD_OUT_START, HELD_OUT_START + 5), ("seat",))], REPLAY, 0, "seat"
    )
    with pytest.raises(ValueError, match="the stage wrong holds the id 1"):
        one.draw()


def test_without_a_curriculum_all_stages_are_drawn_from_and_none_is_left() -> None:
    one = TaskSource([EASY, HARD], REPLAY, 3, "random", in_order=False)
    drawn = Counter(task[0] in HARD.task_ids for task in play([one], 40, Random(1)))
    assert min(drawn.values()) > 100
    assert one.curriculum.number == 0
    assert "stage" not in one.metrics()
