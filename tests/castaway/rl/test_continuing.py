"""Rollouts of a fixed number of turns lose nothing, hand out nothing twice, and go on after a stop."""

import pickle
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.rl.continuing import ContinuingRollout, Harvest
from castaway.rl.rollout import Answer
from castaway.tasks.environment import Prompt
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads


class Counting:
    """A speaker whose answers and values count its turns."""

    def __init__(self) -> None:
        self.spoken = 0

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        answers = []
        for _ in prompts:
            self.spoken += 1
            answers.append(Answer("REASONING: a\nACTION: LEFT", [1], [2, 3], [-1.0, -1.0], [float(self.spoken), 0.0]))
        return answers


def rollout(speaker: Counting, tables: int, length: int = 3) -> ContinuingRollout:
    ids = count()
    return ContinuingRollout(
        lambda: Crossroads(length), lambda: (next(ids), "crew"), speaker, RulesTeacher(AnyText()), tables
    )


def values(harvest: Harvest) -> list[float]:
    return [turn.values[0] for trajectory in harvest.trajectories for turn in trajectory.turns]


def test_an_unfinished_episode_is_bootstrapped_from_its_next_turn() -> None:
    game = rollout(Counting(), tables=1)
    # First round: the walker says 1, the guide 2; second round: the walker says 3, and its first turn is complete.
    first = game.play(1)
    assert [(t.agent, values(Harvest([t])), t.bootstrap) for t in first.trajectories] == [("walker", [1.0], 3.0)]
    assert first.finished == []
    # Third round: the walker says 4, and the episode ends: each LEFT is paid a step later, the guide once a step.
    second = game.play(1)
    assert [(t.agent, values(Harvest([t])), t.bootstrap) for t in second.trajectories] == [
        ("walker", [3.0, 4.0], 0.0), ("guide", [2.0], 0.0)
    ]  # fmt: skip
    assert [[turn.reward for turn in t.turns] for t in second.trajectories] == [[10.0, 10.0], [3.0]]
    assert [turn.reward for turn in first.trajectories[0].turns] == [0.0]
    (episode,) = second.finished
    assert [sum(turn.reward for turn in t.turns) for t in episode.trajectories] == [20.0, 3.0]


@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_every_turn_is_handed_out_once(tables: int, length: int, steps: list[int]) -> None:
    speaker = Counting()
    game = rollout(speaker, tables, length)
    handed, finished = [], 0
    for turns in steps:
        harvest = game.play(turns)
        assert len(values(harvest)) >= turns
        assert all(t.bootstrap == 0 or t.bootstrap > t.turns[-1].values[0] for t in harvest.trajectories)
        handed += values(harvest)
        finished += len(harvest.finished)
    assert len(handed) == len(set(handed))
    waiting = set(range(1, speaker.spoken + 1)) - {int(value) for value in handed}
    assert len(waiting) <= 2 * tables  # the last turns of two agents at each table
    # Ids are drawn in order: the largest at a table says how many episodes were begun before it.
    assert finished == max(one["task_id"] for one in game.state()) + 1 - tables


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_stopped_rollout_goes_on(stop: int) -> None:
    speaker, other = Counting(), Counting()
    unbroken, resumed = rollout(speaker, tables=3), rollout(other, tables=3)
    unbroken.play(stop)
    saved = pickle.dumps(unbroken.state())
    resumed.load_state(pickle.loads(saved))
    other.spoken = speaker.spoken
    resumed._draw = unbroken._draw
    # They draw from one counter, so only until the next episodes begin.
    assert resumed.play(1) == unbroken.play(1)
