"""The source of episodes: the curriculum moves by whole windows, and failures come back until they are mastered."""

import pickle
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.ppo import ReplayParams
from castaway.rl.episode_source import Curriculum, EpisodeSource, FailureBuffer, Report, Task, stage_changes
from castaway.tasks.environment import HELD_OUT_START, CurriculumStage, is_held_out
from tests.castaway.rl.small import source_of

EASY = CurriculumStage("easy", range(0, 1000), ("random",), 0.6, 0.0, 10)
HARD = CurriculumStage("hard", range(HELD_OUT_START - 1000, HELD_OUT_START), ("random", "mcts-3"), 0.5, 0.3, 10)
REPLAY = ReplayParams(share=0.3, capacity=50, mastery=2)


def source(seed: int = 0, replay: ReplayParams = REPLAY) -> EpisodeSource:
    return EpisodeSource([EASY, HARD], replay, seed, "random", lambda task_id: "even" if task_id % 2 == 0 else "odd")


def score(task: Task, outcomes: Random) -> tuple[bool, float]:
    """Whether the episode was won, and how well it went."""
    value = outcomes.random()
    return value > 0.5, value


def play(one: EpisodeSource, steps: int, outcomes: Random) -> list[Task]:
    """Steps of training, of eight episodes each."""
    played = []
    for _ in range(steps):
        drawn = [one.draw() for _ in range(8)]
        one.learn([Report(task, *score(task, outcomes)) for task in drawn])
        played += drawn
    return played


@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 12))
def test_it_goes_on_where_it_stopped(seed: int, before: int, then: int) -> None:
    whole, outcomes = source(seed), Random(seed)
    play(whole, before, outcomes)
    hanging = [whole.draw() for _ in range(3)]
    stopped = source(seed + 1)
    stopped.load_state(pickle.loads(pickle.dumps(whole.state())))
    for one in (whole, stopped):
        one.learn([Report(task, False, 0.25) for task in hanging])
    assert play(stopped, then, Random(9)) == play(whole, then, Random(9))
    assert stopped.state() == whole.state() and stopped.metrics() == whole.metrics()


def test_the_moves_of_the_curriculum_are_read_from_the_metrics() -> None:
    assert stage_changes([{"stage": 2.0}, {"stage": 2.0}, {"stage": 3.0}, {"stage": 2.0}]) == [(1, 2), (3, 3), (4, 2)]
    assert stage_changes([{"stage": 1.0}]) == stage_changes([{"success_rate": 0.5}]) == stage_changes([]) == []


@given(st.integers(0, 10**6))
def test_draws_are_of_the_stage_or_have_failed_before(seed: int) -> None:
    one, outcomes, failed = source(seed), Random(seed), set()
    for _ in range(200):
        stage = one.curriculum.stage
        task = one.draw()
        assert not is_held_out(task[0])
        assert (task[0] in stage.task_ids and task[1] in stage.seats) or task in failed
        success, value = score(task, outcomes)
        one.learn([Report(task, success, value)])
        if not success:
            failed.add(task)


def test_an_episode_that_is_drawn_anew_while_it_is_replayed_counts_once() -> None:
    stage = CurriculumStage("one", range(1), ("random",), threshold=1.0, window=100)
    one = EpisodeSource([stage], ReplayParams(share=0.5, capacity=9, mastery=9), 0, "random")
    drawn = {False: 0, True: 0}
    for _ in range(50):
        tasks = [one.draw() for _ in range(4)]
        fresh = sum(number is not None for *_, numbers in one.state()["own"]["playing"] for number in numbers)
        before = played(one)
        one.learn([Report(task, False, 0.0) for task in tasks])
        assert played(one) - before == fresh
        drawn[fresh < len(tasks)] += 1
    assert drawn[True], "there were replays"


def played(one: EpisodeSource) -> int:
    """How many episodes were counted."""
    return sum(tally.played for tally in one.tallies.values())


def test_no_failure_is_drawn_twice_at_a_time() -> None:
    one = source(replay=ReplayParams(share=1.0, capacity=50, mastery=2))
    failures = {one.draw() for _ in range(5)}
    one.learn([Report(task, False, 0.0) for task in failures])
    drawn = [one.draw() for _ in range(8)]
    assert set(drawn[:5]) == failures and len(set(drawn)) == 8


def test_replays_leave_the_curriculum_and_the_figures_alone() -> None:
    one = source(replay=ReplayParams(share=1.0, capacity=50, mastery=2))
    first = one.draw()
    one.learn([Report(first, False, 0.5)])
    before = one.curriculum.state(), dict(one.tallies)
    for _ in range(2):
        assert one.draw() == first
        one.learn([Report(first, True, 1.0)])
    assert (one.curriculum.state(), one.tallies) == before
    assert one.metrics() == {"stage": 1.0, "stage_success_rate": 0.0, "failures": 0.0, "mastered": 1.0}


def test_without_replays_the_draws_are_a_plain_stream() -> None:
    plain, random = source_of(7, ("traitor", "crew", "crew")), Random(7)
    for number in range(30):
        task = plain.draw()
        assert task == (random.randrange(HELD_OUT_START), ("crew", "traitor", "crew")[number % 3])
        plain.learn([Report(task, False, 0.0)])


def test_the_figures_are_kept_by_kind_and_seat() -> None:
    one, counted = source(), Counter[tuple[str, str]]()
    for _ in range(20):
        drawn = one.draw()
        counted["even" if drawn[0] % 2 == 0 else "odd", drawn[1]] += 1
        one.learn([Report(drawn, True, 0.75)])
    assert {(kind, seat): row["episodes"] for kind, by in one.table().items() for seat, row in by.items()} == counted
    rows = [row for by in one.table().values() for row in by.values()]
    assert all((row["success_rate"], row["mean_score"]) == (1, 0.75) for row in rows)


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("seats", [("traitor",) * 16 + ("crew",) * 16, ("crew", "traitor")])
def test_seats_are_mixed_in_each_step_whatever_the_groups_and_the_replays(
    seats: tuple[str, ...], share: float, group: int
) -> None:
    """The traitor mostly fails, so that replays are mostly its own."""
    stage = CurriculumStage("all", range(HELD_OUT_START), seats)
    one = EpisodeSource([stage], ReplayParams(share=share, capacity=1000, mastery=2), 1, "crew")
    for _ in range(20):
        step = [one.draw(group) for _ in range(32 // group)]
        assert Counter(seat for _, seat in step)["traitor"] * group == pytest.approx(16, abs=4 if share else 0)
        one.learn(Report(task, task[1] == "crew", 0.5) for task in step for _ in range(group))


def test_what_was_not_drawn_cannot_be_reported() -> None:
    one = source()
    task = one.draw()
    one.learn([Report(task, True, 1.0)])
    for wrong in (task, (5, "nobody")):
        with pytest.raises(ValueError, match="was not drawn here, or has been reported before"):
            one.learn([Report(wrong, True, 1.0)])


def test_a_stage_with_held_out_ids_is_never_drawn_from() -> None:
    stage = CurriculumStage("wrong", range(HELD_OUT_START, HELD_OUT_START + 5), ("seat",))
    one = EpisodeSource([stage], REPLAY, 0, "seat")
    with pytest.raises(ValueError, match="the stage wrong holds the id 1"):
        one.draw()


def test_without_a_curriculum_all_stages_are_drawn_from_and_none_is_left() -> None:
    one = EpisodeSource([EASY, HARD], REPLAY, 3, "random", in_order=False)
    drawn = Counter(task[0] in HARD.task_ids for task in play(one, 40, Random(1)))
    assert min(drawn.values()) > 100
    assert one.curriculum.number == 0
    assert "stage" not in one.metrics()


def ladder(threshold: float = 0.6, floor: float = 0.3, window: int = 10, count: int = 3) -> list[CurriculumStage]:
    return [CurriculumStage(f"stage {k}", range(100), ("seat",), threshold, floor, window) for k in range(count)]


def told_of(results: str, curriculum: Curriculum | None = None) -> Curriculum:
    """A curriculum that was told of successes (1) and failures (0) of the stage it was in."""
    curriculum = curriculum or Curriculum(ladder())
    for result in results:
        curriculum.report(curriculum.number, result == "1")
    return curriculum


@pytest.mark.parametrize(
    ("results", "number", "rate"),
    [
        ("", 0, None),
        ("111111111", 0, 1.0),  # nine of ten say nothing yet
        ("1111110000", 1, None),  # six of ten, and a new window
        ("0000111111", 1, None),
        ("1111100000", 0, 0.5),
        ("0000011111" + "1", 1, None),  # the first one has left the window
        ("1111111111" + "0010100000", 0, None),  # two of ten is under the floor
        ("1111111111" + "0010100100", 1, 0.3),  # three of ten is not
        ("1" * 30, 2, 1.0),  # nothing comes after the last one
        ("0" * 30, 0, 0.0),  # and nothing before the first
    ],
)
def test_where_results_lead(results: str, number: int, rate: float | None) -> None:
    curriculum = told_of(results)
    assert (curriculum.number, curriculum.success_rate) == (number, rate)
    assert curriculum.stage.name == f"stage {number}"


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 20), st.floats(0, 1), st.floats(0, 1))
def test_every_move_is_earned_by_a_whole_window(results: list[bool], window: int, one: float, other: float) -> None:
    curriculum = Curriculum(ladder(max(one, other), min(one, other), window))
    since: list[bool] = []
    for success in results:
        before = curriculum.number
        curriculum.report(before, success)
        since.append(success)
        if curriculum.number != before:
            share = sum(since[-window:]) / window
            assert len(since) >= window
            assert share >= max(one, other) if curriculum.number > before else share < min(one, other)
            assert abs(curriculum.number - before) == 1 and curriculum.success_rate is None
            since = []


@pytest.mark.parametrize(
    "wrong",
    [
        CurriculumStage("x", range(0), ("seat",)),
        CurriculumStage("x", range(5), ()),
        CurriculumStage("x", range(5), ("seat",), threshold=0.2, floor=0.3),
    ],
)
def test_a_stage_that_cannot_be_played_is_refused(wrong: CurriculumStage) -> None:
    with pytest.raises(ValueError, match="the stage x has no ids, no seats, or a floor above its threshold"):
        Curriculum([*ladder(), wrong])
    with pytest.raises(ValueError, match="the state is in stage 2, and there are 2 stages"):
        Curriculum(ladder(count=2)).load_state({"stage": 2, "window": []})


Told = list[tuple[int, bool, float]]
reports = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.floats(0, 0.99)), max_size=120)


def task(number: int) -> Task:
    """Ids and seats both tell episodes apart."""
    return number // 2, ("random", "mcts-3")[number % 2]


def kept_after(told: Told, capacity: int = 5, mastery: int = 2, buffer: FailureBuffer | None = None) -> FailureBuffer:
    buffer = buffer or FailureBuffer(capacity, mastery)
    for number, success, score in told:
        buffer.report(task(number), success, 1.0 if success else score)
    return buffer


@given(reports, st.integers(1, 6), st.integers(1, 3))
def test_what_is_kept_is_what_has_failed_and_is_not_mastered(told: Told, capacity: int, mastery: int) -> None:
    buffer = FailureBuffer(capacity, mastery)
    kept: list[int] = []  # the rule, said again: an ordered list of numbers and a streak of each
    streaks: Counter[int] = Counter()
    for number, success, score in told:
        buffer.report(task(number), success, 1.0 if success else score)
        if not success:
            streaks[number] = 0
            if number not in kept:
                kept = [*kept, number][-capacity:]
        elif number in kept:
            streaks[number] += 1
            if streaks[number] == mastery:
                kept.remove(number)
        assert len(buffer) == len(kept) <= capacity
        assert [(task_id, seat) for task_id, seat, *_ in buffer.state()["kept"]] == [task(number) for number in kept]


def test_draws_go_by_severity() -> None:
    buffer, random = FailureBuffer(10, 1), Random(0)
    for number, score in enumerate((0.0, 0.5, 0.9)):
        buffer.report(task(number), False, score)
    drawn = Counter(buffer.draw(random) for _ in range(16_000))
    # 1, 0.5 and 0.1 of 1.6.
    assert [drawn[task(number)] / 16_000 for number in range(3)] == pytest.approx([0.625, 0.3125, 0.0625], abs=0.01)


def test_the_last_failure_says_how_bad_it_is_and_a_success_between_says_nothing() -> None:
    buffer = FailureBuffer(10, 3)
    buffer.report((1, "seat"), False, 0.0)
    buffer.report((1, "seat"), False, 0.75)
    buffer.report((1, "seat"), True, 1.0)
    assert buffer.state()["kept"] == [(1, "seat", 0.25, 1)]
    buffer.report((1, "seat"), False, 0.5)
    assert buffer.state()["kept"] == [(1, "seat", 0.5, 0)]


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_out_of_range_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        FailureBuffer(1, 1).report((1, "seat"), False, score)
