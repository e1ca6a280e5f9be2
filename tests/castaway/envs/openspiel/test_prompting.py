"""The menu: what may be typed, what was meant, and what was foolish."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.openspiel.games import Observation, load_variant, observe
from castaway.envs.openspiel.prompting import MenuRules
from tests.castaway.envs.openspiel.twins import NAMED

RULES = MenuRules()


def position(name: str, *moves: str) -> Observation:
    """What the player sees that is to move after moves by OpenSpiel's names; compact, so that numbers are typed."""
    state = load_variant(NAMED[name], 0).new_initial_state()
    for move in moves:
        names = {state.action_to_string(state.current_player(), action): action for action in state.legal_actions()}
        state.apply_action(names[move])
    return observe(NAMED[name], 0, state.current_player(), state, "compact")


START = position("tic_tac_toe")
PIG = position("pig")
THREAT = position("tic_tac_toe", "x(0,0)", "o(2,0)", "x(0,1)")
"""o to move; x threatens the top row."""
CHANCE_TO_WIN = position("tic_tac_toe", "x(0,0)", "o(2,0)", "x(0,1)", "o(2,2)")


@pytest.mark.parametrize("typed", ["", " 1", "01", "+1", "1.", "a1", "1: a1", "²", "\u0661", "1\n"])
def test_only_a_number_is_an_action(typed: str) -> None:
    refusal = RULES.refusal(START, typed)
    assert refusal is not None and refusal.severity == "form"
    assert refusal.sentence == "Answer with the number of a move, from 1 to 9."
    refusal = RULES.refusal(START, "10")
    assert refusal is not None and refusal.severity == "impossible" and RULES.refusal(START, "9") is None


def test_the_lot_is_legal_unlisted_and_foolish() -> None:
    for seen in (START, PIG):
        assert RULES.refusal(seen, "0") is None and "0" not in RULES.legal_actions(seen)
        assert RULES.blunder(seen, "0") == "The move is left to the lot."
    assert RULES.repair(START, "0") in RULES.legal_actions(START)


@pytest.mark.parametrize(
    ("text", "number"),
    [(" 4 ", "4"), ("move 3 please", "3"), ("b2", "5"), ("A3 I think", "7"), ("c-3", "9"), ("", "1"), ("77", "1")],
)
def test_what_was_meant(text: str, number: str) -> None:
    assert RULES.repair(START, text) == number


@given(st.text())
def test_something_legal_was_meant_by_any_text(text: str) -> None:
    assert RULES.refusal(START, RULES.repair(START, text)) is None
    assert RULES.refusal(PIG, RULES.repair(PIG, text)) is None


def test_a_threat_is_not_to_be_overlooked() -> None:
    names = dict(zip(THREAT.moves, RULES.legal_actions(THREAT), strict=True))
    assert RULES.blunder(THREAT, names["o(1,1)"]) == "After b2 the other side has won or can win at once."
    assert RULES.blunder(THREAT, names["o(0,2)"]) == ""


def test_the_last_one_in_nim_is_left_to_the_other() -> None:
    seen = position("nim", "pile:3, take:3;", "pile:1, take:1;")
    told = {move: RULES.blunder(seen, typed) for move, typed in zip(seen.moves, RULES.legal_actions(seen), strict=True)}
    assert told == {"pile:2, take:1;": "", "pile:2, take:2;": "After b0 the other side has won or can win at once."}
