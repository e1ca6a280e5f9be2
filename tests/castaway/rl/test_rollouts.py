"""Rollouts of a fixed number of turns lose nothing, hand out nothing twice, and go on after a stop."""

import pickle
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.rl.rollouts import Batch, ContinuingRollout
from castaway.rollout.play import Generation
from castaway.tasks.environment import Prompt
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads


class Counting:
    """A policy whose answers and values count its turns."""

    def __init__(self) -> None:
        self.spoken = 0

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        answers = []
        for _ in prompts:
            self.spoken += 1
            values = [float(self.spoken), 0.0]
            answers.append(Generation("REASONING: a\nACTION: LEFT", [1], [2, 3], [-1.0, -1.0], values))
        return answers


def rollout(policy: Counting, parallel: int, length: int = 3) -> ContinuingRollout:
    ids, teacher = count(), RulesTeacher(AnyText())
    return ContinuingRollout(lambda: Crossroads(length), lambda: (next(ids), "crew"), policy, teacher, parallel)


def values(batch: Batch) -> list[float]:
    return [turn.values[0] for trajectory in batch.trajectories for turn in trajectory.turns]


def test_an_unfinished_episode_is_bootstrapped_from_its_next_turn() -> None:
    game = rollout(Counting(), parallel=1)
    # First round: the walker says 1, the guide 2; second round: the walker says 3, and its first turn is complete.
    first = game.play(1)
    assert [(t.agent, values(Batch([t])), t.bootstrap) for t in first.trajectories] == [("walker", [1.0], 3.0)]
    assert first.finished == []
    # Third round: the walker says 4, and the episode ends: each LEFT is paid a step later, the guide once a step.
    second = game.play(1)
    assert [(t.agent, values(Batch([t])), t.bootstrap) for t in second.trajectories] == [
        ("walker", [3.0, 4.0], 0.0), ("guide", [2.0], 0.0)
    ]  # fmt: skip
    assert [[turn.reward for turn in t.turns] for t in second.trajectories] == [[10.0, 10.0], [3.0]]
    assert [turn.reward for turn in first.trajectories[0].turns] == [0.0]
    (episode,) = second.finished
    assert [t.reward for t in episode.trajectories] == [20.0, 3.0]
    assert [(t.count, t.replaced, t.turns) for t in episode.trajectories] == [(3, 0, []), (1, 0, [])]


@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=40)
def test_every_turn_is_handed_out_once(parallel: int, length: int, steps: list[int]) -> None:
    policy = Counting()
    game = rollout(policy, parallel, length)
    handed, finished = [], 0
    for turns in steps:
        batch = game.play(turns)
        assert len(values(batch)) >= turns
        assert all(t.bootstrap == 0 or t.bootstrap > t.turns[-1].values[0] for t in batch.trajectories)
        handed += values(batch)
        finished += len(batch.finished)
    assert len(handed) == len(set(handed))
    waiting = set(range(1, policy.spoken + 1)) - {int(value) for value in handed}
    assert len(waiting) <= 2 * parallel  # the last turns of two agents in each episode
    # Ids are drawn in order: the largest in progress says how many episodes were begun before it.
    assert finished == max(one["task_id"] for one in game.state()) + 1 - parallel


def test_a_long_game_keeps_no_turn_that_was_handed_out() -> None:
    game, sizes = rollout(Counting(), parallel=2, length=200), []
    for _ in range(3):
        game.play(100)
        trajectories = [whole for saved in game.state() for whole in saved["trajectories"].values()]
        assert [len(whole.turns) for whole in trajectories] == [1] * len(trajectories)
        sizes.append(sum(whole.count for whole in trajectories))
    assert sizes[0] >= 100 and sizes[2] >= sizes[0] + 200


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_stopped_rollout_goes_on(stop: int) -> None:
    policy, other = Counting(), Counting()
    unbroken, resumed = rollout(policy, parallel=3), rollout(other, parallel=3)
    unbroken.play(stop)
    saved = pickle.dumps(unbroken.state())
    resumed.load_state(pickle.loads(saved))
    other.spoken = policy.spoken
    resumed.draw = unbroken.draw
    # They draw from one counter, so only until the next episodes begin.
    assert resumed.play(1) == unbroken.play(1)
