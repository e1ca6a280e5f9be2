"""How much of the gap a policy closes, on numbers that can be worked out by hand."""

from dataclasses import replace

import pytest

from castaway.envs.openspiel.comparison import CEILING, FLOOR, comparison
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import episode_of
from castaway.tasks.environment import HELD_OUT_START, Outcome, Played, ids_in_a_row
from castaway.tasks.registry import task_of
from tests.shipped import PARAMS

TASK = task_of(PARAMS, "openspiel")
IDS = ids_in_a_row(TASK.training_ids(), 500_000_000, 600)


def played(wins: int, seat: str = "random", invalid: int = 0) -> list[Played]:
    """The first two games of the ids, 20 episodes each; in each game the first `wins` of them succeed."""
    return [
        Played(task_id, seat, Outcome(number < wins, "", {"score": float(number < wins)}), 4, invalid)
        for game in list(dict.fromkeys(episode_of(task_id).game for task_id in IDS))[:2]
        for number, task_id in enumerate([one for one in IDS if episode_of(one).game == game][:20])
    ]


def test_the_gap_by_hand() -> None:
    wins = {"final": played(12), "base": played(4, invalid=1), FLOOR: played(8), CEILING: played(16)}
    further = {"final": 6, "base": 2, FLOOR: 4, CEILING: 8}
    found = comparison({name: games + played(further[name], "mcts-10") for name, games in wins.items()}, "random")
    assert found["final"]["gap_closed"] == pytest.approx((12 - 8) / (16 - 8))
    assert found["base"]["gap_closed"] == pytest.approx(-0.5)
    assert found["final"]["gap_closed_low"] > 0.1 > found["base"]["gap_closed_high"]
    assert found[FLOOR]["success_rate"] == pytest.approx(0.4) and found[CEILING]["episodes"] == 40
    assert "gap_closed" not in found[FLOOR]
    assert found["final"]["mcts-10_gap_closed"] == pytest.approx((6 - 4) / (8 - 4))
    assert found[FLOOR]["mcts-10_success_rate"] == pytest.approx(0.2)
    # Where there is no gap nothing is closed.
    assert comparison({**wins, CEILING: played(8)}, "random")["final"]["gap_closed"] == 0.0
    assert len(found["games"]) == 2
    for figures in found["games"].values():
        assert figures["final"]["gap_closed"] == pytest.approx(0.5)
        assert figures["base"]["invalid_rate"] == 0.25 and figures["final"]["invalid_rate"] == 0.0
        assert figures[CEILING]["success_rate"] == pytest.approx(0.8)


def test_the_relative_advantage_by_hand() -> None:
    found = comparison({"final": played(12), FLOOR: played(5), CEILING: played(20)}, "random")
    # Of 20 games 12 are won and 8 are lost: (12 - 8 - (8 - 12)) / (20 + 20).
    assert found["final"]["relative_advantage"] == pytest.approx(0.2)
    assert (found[FLOOR]["relative_advantage"], found[CEILING]["relative_advantage"]) == pytest.approx((-0.5, 1.0))
    half = [replace(one, outcome=Outcome(False, "", {"score": 0.5})) for one in played(0)]
    half[0] = replace(half[0], outcome=Outcome(True, "", {"score": 1.0}))
    drawn = comparison({"final": half, FLOOR: half, CEILING: half}, "random")["games"]
    assert sorted(figures["final"]["relative_advantage"] for figures in drawn.values()) == [0.0, 1.0]


def test_the_others_play_the_same_held_out_episodes_the_same_way() -> None:
    environment = OpenSpielEnvironment(("random", "mcts-10"))
    tasks = [(HELD_OUT_START + task_id, seat) for seat in ("random", "mcts-10") for task_id in IDS[:20]]

    def by(name: str) -> list[Played]:
        return [environment.play_out(name, *task) for task in tasks]

    weak = by("mcts-2")
    assert weak == by("mcts-2") and [(one.task_id, one.seat) for one in weak] == tasks
    played = {"weak": weak, FLOOR: by(FLOOR)}
    played |= {name: [play(*task) for task in tasks] for name, play in TASK.yardsticks().items()}
    found = TASK.compare(played)
    assert found[CEILING]["success_rate"] > found["random"]["success_rate"]
