"""Whole episodes of every game."""

from random import Random

import pytest

from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import GAMES, player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.players import simulations_of
from castaway.tools.checker import check_environment
from tests.castaway.envs.openspiel.twins import NAMED

BOARDS = [(game, variant) for game in range(len(GAMES)) for variant in range(len(GAMES[game].variants))]


def task(name: str, variant: int = 0, seat: int = 0, opponent: int = 0, chance: int = 0) -> int:
    return task_id_of(Episode(GAMES.index(NAMED[name]), variant, seat, chance, opponent))


@pytest.mark.parametrize(("game", "variant"), BOARDS)
def test_every_variant_of_every_game_keeps_the_contract(game: int, variant: int) -> None:
    """Among others that an episode ends, in each seat, and is the same when it is played again."""
    seats = player_count(GAMES[game], variant)
    ids = [task_id_of(Episode(game, variant, number % seats, number, number)) for number in range(4)]
    check_environment(OpenSpielEnvironment, ids)


@pytest.mark.parametrize("game", range(len(GAMES)))
def test_every_game_keeps_the_contract_in_self_play(game: int) -> None:
    check_environment(
        lambda: OpenSpielEnvironment(("self",)), [task_id_of(Episode(game, 0, 0, chance, 0)) for chance in (0, 1)]
    )


@pytest.mark.parametrize("game", BOARDS)
def test_in_self_play_everybody_who_is_to_move_is_prompted_and_the_player_always_moves(game: tuple[int, int]) -> None:
    environment, random = OpenSpielEnvironment(("random", "self")), Random(7)
    seats = player_count(GAMES[game[0]], game[1])
    assert seats <= 4
    for number in range(6):
        environment.reset(task_id_of(Episode(*game, number % seats, number, number)), "self")
        moved = 0
        while not environment.done:
            (prompt,) = environment.prompts()
            place = (prompt.observation.seat - number % seats) % seats
            assert prompt.agent == (f"rival {place}" if place else "player") and prompt.opponent == (place > 0)
            moved += not prompt.opponent
            paid = environment.step({prompt.agent: random.choice(environment.rules.legal_actions(prompt.observation))})
        outcome = environment.outcome()
        assert moved > 0 and moved >= outcome.details["length"] > 0
        assert paid["player"] == outcome.details["score"]
        assert all(paid[f"rival {place}"] == 0.0 for place in range(seats, 4))


def test_pay_comes_at_the_end_and_is_the_score() -> None:
    environment = OpenSpielEnvironment()
    for task_id in range(200):
        environment.reset(task_id, "random")
        while not environment.done:
            paid = environment.step({})["player"]
            assert environment.done or paid == 0.0
        outcome = environment.outcome()
        assert paid == outcome.details["score"] and 0.0 <= paid <= 1.0
        assert paid > 0.5 or not outcome.success


def test_idleness_draws_a_move_by_lot_the_same_one_each_time() -> None:
    environment, first = OpenSpielEnvironment(), set()
    for chance in range(40):
        drawn = set()
        for typed in ({}, {"player": "0"}, {"player": "99"}, {"player": "x(0,0)"}, {"player": " 1"}):
            environment.reset(task("tic_tac_toe", chance=chance), "random")
            environment.step(typed)
            drawn.add(environment.snapshot()["history"][0])
        assert len(drawn) == 1
        first |= drawn
    assert len(first) > 5


@pytest.mark.parametrize("name", ["", "Random", "mcts", "mcts-1", "mcts--5", "mcts-x", "solver-5"])
def test_an_opponent_that_there_is_not_is_refused(name: str) -> None:
    assert (simulations_of("random"), simulations_of("mcts-10")) == (0, 10)
    with pytest.raises(ValueError, match=f"there is no opponent '{name}'"):
        simulations_of(name)
