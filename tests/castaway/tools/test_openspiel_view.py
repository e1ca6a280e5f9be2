"""Saved board games as text."""

from __future__ import annotations

from typing import Any

from castaway.tools.openspiel.view import draw_boards
from castaway.tools.view import view_of

TIC_TAC_TOE = {"game": "tic_tac_toe", "variant": "standard", "seat": 0, "history": [4, 0, 2, 6, 3, 8, 5]}
BOARDS = """\
1 x     2 o     3 x     4 o     5 x     6 o     7 x
. . .   O . .   o . X   o . x   o . x   o . x   o . x
. X .   . x .   . x .   . x .   X x .   x x .   x x X
. . .   . . .   . . .   O . .   o . .   o . O   o . o"""


def episode(moment: dict[str, Any], ending: str) -> list[dict[str, Any]]:
    head = {"task_id": 7, "seat": "random", "success": True, "ending": f"{moment['game']} {ending}"}
    said = {"player": {"text": "REASONING: win c2\nACTION: 2", "valid": True, "action": "2"}}
    return [head, {**moment, "history": [], "said": said}, {**moment, "said": {}}]


def test_each_move_of_tic_tac_toe_has_its_board() -> None:
    assert "\n".join(draw_boards(TIC_TAC_TOE)) == BOARDS
    title, *boards = view_of("openspiel").brief(episode(TIC_TAC_TOE, "won"))
    assert title == "The model plays x against a random player: won."
    assert "\n".join(boards) == BOARDS
    longest = draw_boards({**TIC_TAC_TOE, "history": [0, 1, 2, 4, 3, 5, 7, 6, 8]})
    assert longest[-1] == ". . .   . . .   . . .   . . .   . . .   . . .   . X .   O x .   o x X"
    assert max(map(len, longest)) <= 80


def test_a_game_without_a_board_is_told_in_words() -> None:
    told = view_of("openspiel").brief(episode({"game": "nim", "variant": "1 3 5 7", "seat": 0, "history": [1]}, "won"))
    assert told == ["  player: REASONING: win c2", "      ACTION: 2", "      -> valid.", "The end: success, nim won."]
