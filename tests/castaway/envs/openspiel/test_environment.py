"""Whole episodes of every game."""

import json
from random import Random

import pytest

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import Game, player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.tasks.checker import check_environment
from castaway.tasks.environment import TextEnvironment

BOARDS = [(game, variant) for game in range(len(GAMES)) for variant in range(len(GAMES[game].variants))]


def named(name: str) -> Game:
    return next(game for game in GAMES if game.name == name)


def task(name: str, variant: int = 0, seat: int = 0, opponent: int = 0, chance: int = 0) -> int:
    return task_id_of(Episode(GAMES.index(named(name)), variant, seat, chance, opponent))


def record(environment: TextEnvironment, task_id: int, seed: int) -> str:
    """All that happens in an episode of a random typist, as text."""
    random, seen = Random(seed), []
    environment.reset(task_id, "random")
    while not environment.done:
        (prompt,) = environment.prompts()
        typed = random.choice(environment.rules.legal_actions(prompt.observation))
        seen += [prompt.messages, typed, environment.step({"player": typed}), environment.snapshot()]
    outcome = environment.outcome()
    return json.dumps([*seen, outcome.success, outcome.ending, dict(outcome.details)])


@pytest.mark.parametrize(("game", "variant"), BOARDS)
def test_every_variant_of_every_game_keeps_the_contract(game: int, variant: int) -> None:
    """Among others that an episode ends, in each seat, and is the same when it is played again."""
    seats = player_count(GAMES[game], variant)
    ids = [task_id_of(Episode(game, variant, number % seats, number, number)) for number in range(4)]
    check_environment(OpenSpielEnvironment, ids)


@pytest.mark.parametrize("game", range(len(GAMES)))
def test_the_games_take_turns_by_task_id_and_an_ending_names_its_game(game: int) -> None:
    environment = OpenSpielEnvironment()
    for number in range(20):
        environment.reset(game + len(GAMES) * number, "random")
        assert environment.prompts()[0].observation.game is GAMES[game]
        while not environment.done:
            environment.step({})
        assert environment.outcome().ending.startswith(GAMES[game].name)


@pytest.mark.parametrize("game", [game for game in range(len(GAMES)) if GAMES[game].name != "othello"])
def test_every_game_keeps_the_contract_against_a_search(game: int) -> None:
    check_environment(lambda: OpenSpielEnvironment(("mcts-4",)), [game])


@pytest.mark.parametrize("game", range(len(GAMES)))
def test_every_game_keeps_the_contract_in_self_play(game: int) -> None:
    check_environment(lambda: OpenSpielEnvironment(("self",)), range(game, game + 2 * len(GAMES), len(GAMES)))


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
            assert prompt.agent == (f"rival {place}" if place else "player") and prompt.rival == (place > 0)
            moved += not prompt.rival
            typed = random.choice(environment.rules.legal_actions(prompt.observation))
            paid = environment.step({prompt.agent: typed})
        outcome = environment.outcome()
        assert moved > 0 and moved >= outcome.details["length"] > 0
        assert paid["player"] == outcome.details["score"]
        assert all(paid[f"rival {place}"] == 0.0 for place in range(seats, 4))


def test_self_play_changes_no_other_seat() -> None:
    plain, both = OpenSpielEnvironment(), OpenSpielEnvironment(("random", "self"))
    for task_id in range(20):
        first, second = json.loads(record(plain, task_id, 1)), json.loads(record(both, task_id, 1))
        for paid in second[2:-3:4]:
            for place in (1, 2, 3):
                del paid[f"rival {place}"]
        assert first == second


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


def test_the_same_deal_in_another_seat_and_against_others() -> None:
    environment, deals = OpenSpielEnvironment(), set()
    for seat in range(4):
        for opponent in range(3):
            environment.reset(task("euchre", seat=seat, opponent=opponent, chance=3), "random")
            deals.add(tuple(environment.snapshot()["history"][:22]))
    environment.reset(task("euchre", chance=4), "random")
    assert len(deals) == 1 and tuple(environment.snapshot()["history"][:22]) not in deals


def test_every_episode_of_every_seat_has_a_move_to_make() -> None:
    environment = OpenSpielEnvironment()
    for name in ("blackjack", "euchre", "kuhn_poker", "liars_dice"):
        for variant in range(len(named(name).variants)):
            for chance in range(60):
                seat = chance % player_count(named(name), variant)
                environment.reset(task(name, variant, seat, chance=chance), "random")
                assert len(environment.prompts()) == 1


def test_a_full_prompt_says_the_rules_the_side_the_board_and_the_menu() -> None:
    environment = OpenSpielEnvironment()
    environment.reset(task("tic_tac_toe"), "random")
    environment.step({"player": "b2"})
    system, user = environment.prompts()[0].messages
    assert named("tic_tac_toe").line in system["content"]
    who, letters, *rows, menu = user["content"].split("\n")
    assert who == "You are X. It is your turn." and letters == "  a b c"
    assert [row[0] for row in rows] == ["1", "2", "3"] and rows[1][4] == "X" and "O" in "".join(rows)
    assert menu.startswith("Moves: ") and len(menu.split(", ")) == 7


def test_nobody_moves_after_the_end() -> None:
    environment = OpenSpielEnvironment()
    environment.reset(task("kuhn_poker"), "random")
    while not environment.done:
        environment.step({})
    assert environment.prompts() == ()
    with pytest.raises(ValueError, match="the episode is over"):
        environment.step({})
