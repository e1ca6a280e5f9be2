"""Known endings, by hand: who has won, and how well."""

import pytest

from castaway.envs.openspiel.games import largest_return, load_variant
from tests.castaway.envs.openspiel.twins import NAMED


def ended(name: str, moves: list[str | int], variant: int = 0) -> tuple[list[bool], list[float]]:
    """Success and result of every seat after moves by name; chance by number."""
    game = NAMED[name]
    loaded = load_variant(game, variant)
    state = loaded.new_initial_state()
    for move in moves:
        if isinstance(move, str):
            names = {state.action_to_string(state.current_player(), action): action for action in state.legal_actions()}
            move = names[move]
        state.apply_action(move)
    assert state.is_terminal()
    seats, returns, most = range(loaded.num_players()), state.returns(), largest_return(loaded)
    return [game.success(returns, seat) for seat in seats], [game.result(returns, seat, most) for seat in seats]


ENDINGS: list[tuple[str, list[str | int], list[bool], list[float]]] = [
    ("tic_tac_toe", ["x(0,0)", "o(1,0)", "x(0,1)", "o(1,1)", "x(0,2)"], [True, False], [1.0, 0.0]),
    (
        "tic_tac_toe",
        ["x(0,0)", "o(0,1)", "x(0,2)", "o(1,1)", "x(1,0)", "o(1,2)", "x(2,1)", "o(2,0)", "x(2,2)"],
        [False, False],
        [0.5, 0.5],
    ),
    ("connect_four", ["x0", "o1", "x0", "o1", "x0"], [True, False], [1.0, 0.0]),
    # Cards 0 and 2: a bet that is called costs two, one that is not costs one.
    ("kuhn_poker", [0, 2, "Bet", "Bet"], [False, True], [0.0, 1.0]),
    ("kuhn_poker", [0, 2, "Bet", "Pass"], [True, False], [0.75, 0.25]),
    # Dice 2 and 3: nobody has a five, so the bid was wrong.
    ("liars_dice", [1, 2, "1-5", "Liar"], [False, True], [0.0, 1.0]),
    # Point cards 3, 2, 1: first player takes 3, then both bid the same; the last cards fall by themselves.
    ("goofspiel", ["[P0]Bid: 3", "[P1]Bid: 1", "[P0]Bid: 2", "[P1]Bid: 2"], [True, False], [1.0, 0.0]),
    # x joins top and bottom.
    ("hex", ["a1", "b1", "a2", "b2", "a3"], [True, False], [1.0, 0.0]),
    ("dark_hex", ["a1", "b1", "a2"], [True, False], [1.0, 0.0]),
    # Who takes the last one loses.
    ("nim", ["pile:1, take:1;", "pile:2, take:2;", "pile:3, take:3;"], [False, True], [0.0, 1.0]),
    # An empty board is White's by the komi.
    ("go", ["B PASS", "W PASS"], [False, True], [0.0, 1.0]),
    # Two illegal items pass for a bribe of one: the smuggler has 1, the sheriff 1; an inspection costs 4.
    ("sheriff", ["PlaceIllegalItems(num=2)", "Bribe(amount=1)", 0], [False, False], [0.5, 0.5]),
]


@pytest.mark.parametrize(("name", "moves", "success", "results"), ENDINGS)
def test_an_ending(name: str, moves: list[str | int], success: list[bool], results: list[float]) -> None:
    assert ended(name, moves) == (success, results)


@pytest.mark.parametrize(
    ("name", "returns", "success", "results"),
    [
        ("hearts", [20, 26, 18, 14], [False, True, False, False], [2 / 3, 1.0, 1 / 3, 0.0]),
        ("oh_hell", [10, 11, 0], [False, True, False], [0.5, 1.0, 0.0]),
        ("euchre", [2, -2, 2, -2], [True, False, True, False], [0.75, 0.25, 0.75, 0.25]),
        ("blackjack", [0], [False], [0.5]),
    ],
)
def test_an_account(name: str, returns: list[float], success: list[bool], results: list[float]) -> None:
    game = NAMED[name]
    most = largest_return(load_variant(game, 0))
    assert [game.success(returns, seat) for seat in range(len(returns))] == success
    assert [game.result(returns, seat, most) for seat in range(len(returns))] == pytest.approx(results)
