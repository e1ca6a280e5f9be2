"""Dark chess on a small board: its text, the names of moves, and the values that the expert gives them.

A player sees its own pieces and the cells that they can move to, and nothing else. OpenSpiel shows a FEN with `?` for
the other cells. What follows the board there is left out: whose turn it is everybody knows, and the move counters tell
what the other side has done in the dark.
"""

import re
from string import ascii_lowercase
from typing import Any

import pyspiel

from castaway.envs.openspiel.games import MoveValue, Observation

PIECES = {"k": "king", "q": "queen", "r": "rook", "b": "bishop", "n": "knight", "p": "pawn"}
WORTH = {"k": 100, "q": 9, "r": 5, "b": 3, "n": 3, "p": 1}
_MOVES_FROM_A_CELL = 73  # in OpenSpiel's numbers of moves, which count all those from a1 first, then those from a2
_LARGEST = 8  # the board that these numbers are made for
_CELL = re.compile("[a-h][1-8]")


def _cells(board: str) -> dict[str, str]:
    """The letter of the piece on each cell, capital for White; `.` where there is none and `?` where it is not seen."""
    rows = board.split("/")
    marks = [re.sub(r"\d", lambda empty: "." * int(empty.group()), row) for row in rows]
    return {
        f"{letter}{len(rows) - at}": mark
        for at, row in enumerate(marks)
        for letter, mark in zip(ascii_lowercase, row, strict=False)
    }


def _own(observation: Observation, mark: str) -> bool:
    return mark.isalpha() and mark.isupper() == (observation.side == "White")


def drawing(observation: Observation) -> str:
    cells = _cells(observation.text)
    rows: dict[str, list[str]] = {}
    for cell, mark in cells.items():
        rows.setdefault(cell[1], []).append(mark)
    letters = " ".join(ascii_lowercase[: len(rows)])
    return "\n".join([f"  {letters}", *(f"{row} {' '.join(marks)}" for row, marks in rows.items())])


def pieces(observation: Observation) -> str:
    """All pieces in sight, kind by kind, and the moves that take one: `king +c1 -c4`, `takes king a1c4`."""
    cells, lines = _cells(observation.text), list[str]()
    for letter, kind in PIECES.items():
        # The own ones first.
        found = sorted(
            ("+" if _own(observation, mark) else "-") + cell for cell, mark in cells.items() if mark.lower() == letter
        )
        lines += [" ".join([kind, *found])] if found else []
    for letter, kind in PIECES.items():
        takes = [
            name_of(observation, move, number)
            for move, number in zip(observation.moves, observation.numbers, strict=True)
            if _taken(cells, move) == letter
        ]
        lines += [" ".join(["takes", kind, *takes])] if takes else []
    return "\n".join(lines)


def name_of(observation: Observation, move: str, number: int) -> str:
    """As chess players write it, `axb3`; in the compact rendering the cells from and to, `a2b3`, or `a3a4q`."""
    if observation.rendering == "full":
        return move
    column, row = divmod(number // _MOVES_FROM_A_CELL, _LARGEST)
    # For Black, OpenSpiel counts the rows from the other end.
    row = row + 1 if observation.side == "White" else int(observation.parameters["board_size"]) - row
    promoted = move[-1].lower() if "=" in move else ""
    return f"{ascii_lowercase[column]}{row}{_target(move)}{promoted}"


def _target(move: str) -> str:
    return str(_CELL.findall(move)[-1])


def _taken(cells: dict[str, str], move: str) -> str:
    """The kind of piece that a move takes, a letter. On so small a board no pawn is taken in passing."""
    return cells[_target(move)].lower() if "x" in move else ""


def sight(observation: Observation) -> list[MoveValue]:
    """Take the king, keep the own one out of reach, take more than is lost in sight, and move the king last."""
    cells, state = _cells(observation.text), _guess(observation)

    def move_value(action: int, move: str) -> MoveValue:
        taken, promoted = _taken(cells, move), move[-1].lower() if "=" in move else "p"
        if taken == "k":
            return MoveValue(WORTH["k"], "win")
        lost, gained = _in_reach(state.child(action)), WORTH.get(taken, 0) + WORTH[promoted] - WORTH["p"]
        kind = "takes" if taken else "promote" if "=" in move else "quiet"
        return MoveValue(gained - lost - 0.5 * (move[0] == "K"), "risk" if lost > gained else kind)

    return [move_value(*both) for both in zip(observation.numbers, observation.moves, strict=True)]


def _in_reach(state: Any) -> int:
    """What the best piece is worth that the side to move can take, 0 if it can take none."""
    cells, player = _cells(str(state).split()[0]), state.current_player()
    taken = (_taken(cells, state.action_to_string(player, action)) for action in state.legal_actions())
    return max((WORTH[kind] for kind in taken if kind), default=0)


def _guess(observation: Observation) -> Any:
    """The position as it is seen; if the other king is not, it stands on the unseen cell farthest from the own one."""
    cells, king = _cells(observation.text), "K" if observation.side == "White" else "k"
    at = {mark: cell for cell, mark in cells.items()}
    unseen = [cell for cell, mark in cells.items() if mark == "?"]
    if king.swapcase() not in at:
        cells[max(unseen, key=lambda cell: _distance(cell, at[king]))] = king.swapcase()
    size, marks = int(observation.parameters["board_size"]), "".join(cells.values()).replace("?", ".")
    rows = [
        re.sub(r"\.+", lambda gap: str(len(gap.group())), marks[start : start + size])
        for start in range(0, size**2, size)
    ]
    fen = f"{'/'.join(rows)} {observation.side[0].lower()} - - 0 1"
    return pyspiel.load_game(observation.game.name, {"board_size": size, "fen": fen}).new_initial_state()


def _distance(cell: str, other: str) -> int:
    return max(abs(ord(one) - ord(another)) for one, another in zip(cell, other, strict=True))
