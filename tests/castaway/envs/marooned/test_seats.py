"""One student in all seats: who is asked, who is paid what, and what counts as success."""

from collections import Counter
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from castaway.config.ppo import ReplayParams
from castaway.envs.marooned.engine import OUT_OF_TURNS
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import expert
from castaway.envs.marooned.task import Marooned, MaroonedParams
from castaway.rl.episode_source import EpisodeSource, FailureBuffer
from castaway.rl.rewards import Readings, make_samples
from castaway.rollout.play import Generation, play_episodes
from castaway.rollout.trajectory import Episode
from castaway.tasks.environment import Prompt
from tests.castaway.rl.test_rewards import plain


def task(**game: object) -> Marooned:
    return Marooned(MaroonedParams.model_validate({"scenario": "skiff", "rendering": "compact", **game}))


def waiting(prompts: Sequence[Prompt]) -> list[Generation]:
    """Replies of one token each."""
    return [Generation("REASONING: rest\nACTION: WAIT", [1], [2], [-1.0], [0.0]) for _ in prompts]


def good(prompts: Sequence[Prompt]) -> list[Generation]:
    return [Generation(str(expert(prompt))) for prompt in prompts]


def played(task_id: int, seat: str) -> Episode:
    return play_episodes(task(traitor_share=0.5).make, [(task_id, seat)], waiting, None)[0]


def test_every_sailor_is_paid_by_its_role_and_measured_within_it() -> None:
    """All wait in `skiff`: 21 turns, energy 40, 32 and 24, all high; the traitor wins with the last day."""
    episode = played(3, "all")
    by_role = {one.role: one for one in episode.trajectories}
    assert Counter(one.role for one in episode.trajectories) == {"colonist": 4, "traitor": 1}
    # -0.01 a turn and +0.05 for high energy, which the traitor is not paid for.
    assert [turn.reward for turn in by_role["colonist"].turns] == pytest.approx([0.04] * 21)
    assert [turn.reward for turn in by_role["traitor"].turns] == pytest.approx([-0.01] * 20 + [99.99])

    logprobs = [turn.logprobs for one in episode.trajectories for turn in one.turns]
    readings = Readings(logprobs, logprobs, [0.0] * len(logprobs))
    samples = make_samples(episode.trajectories, readings, plain(normalise_by="role"), 0.0)
    # Undiscounted returns fall by 0.04 a turn for a colonist, and rise by 0.01 for the traitor: a line from turn 0 to
    # 20, whose mean is at turn 10 and whose deviation is that of 0..20, sqrt((21^2 - 1) / 12).
    deviation = ((21**2 - 1) / 12) ** 0.5
    line = [(turn - 10) / deviation for turn in range(21)]
    for number, one in enumerate(episode.trajectories):
        found = [sample.advantages[0] for sample in samples[21 * number : 21 * number + 21]]
        assert found == pytest.approx(line if one.role == "traitor" else [-value for value in line], abs=1e-2)


def test_nobody_fails_who_plays_both_sides() -> None:
    episode = played(3, "all")
    assert (episode.outcome.success, episode.score) == (False, 1.0), "success is the crew's"
    failures = FailureBuffer(capacity=9, mastery=1)
    for one in (episode, played(3, "crew")):
        failures.report((one.task_id, one.seat), one.unaided_success, one.score)
    assert failures.state()["kept"] == [(3, "crew", 1.0, 0)]


@pytest.mark.parametrize(("task_id", "own", "rivals"), [(4, ["colonist"] * 4, 1), (5, ["traitor"], 4)])
def test_in_self_play_an_earlier_policy_plays_the_other_side(task_id: int, own: list[str], rivals: int) -> None:
    environment = MaroonedEnvironment("skiff", "compact")
    environment.reset(task_id, "self")
    assert Counter(prompt.opponent for prompt in environment.prompts()) == {False: len(own), True: rivals}
    make = task(traitor_share=0.0).make
    for policy, opponent in ((good, waiting), (waiting, good)):
        (episode,) = play_episodes(make, [(task_id, "self")], policy, None, opponent=opponent)
        assert [one.role for one in episode.trajectories] == own
        # Workers finish the ship if nobody breaks it, and who waits builds none.
        assert episode.outcome.success is (policy is good)


def test_the_curriculum_gives_each_seat_its_share() -> None:
    (stage,) = task(traitor_share=0.25, all_share=0.25, self_share=0.125).curriculum(8)
    assert stage.seats == ("traitor", "traitor", "all", "all", "self", "crew", "crew", "crew")
    replay = ReplayParams(share=0.0, capacity=1, mastery=1)
    assert EpisodeSource([stage], replay, 1, "crew").self_play
    (as_ever,) = task(traitor_share=0.5).curriculum(4)
    assert as_ever.seats == ("traitor", "traitor", "crew", "crew")
    with pytest.raises(ValidationError, match="expected at most 1"):
        task(traitor_share=0.5, all_share=0.7)


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
def test_a_budget_of_turns_ends_a_game_like_its_last_day(scenario: str) -> None:
    environment = MaroonedEnvironment(scenario, "full", turns=5)
    environment.reset(1, "all")
    system = environment.prompts()[0].messages[0]["content"]
    assert "or 5 turns are over" in system
    for left in range(5, 0, -1):
        assert not environment.done, left
        paid = environment.step({})
    assert (environment.outcome().ending, environment.outcome().success) == (OUT_OF_TURNS, False)
    assert sorted(paid.values())[-1] == pytest.approx(99.99)
