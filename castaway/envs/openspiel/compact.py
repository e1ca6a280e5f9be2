"""The compact rendering of situations and moves, for small models: one word for each fact.

A cell has the same name on every board, a letter for the column and a number for the row; `+a1` is the player's own
mark and `-a1` the opponent's. So a position is a set of words, and no empty cells have to be counted. In Hex the player
that connects left and right sees the board mirrored, so that both sides play the same game. Games without a function
here are shown in OpenSpiel's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from castaway.envs.openspiel.boards import sides_of_boxes
from castaway.envs.openspiel.observation import Observation

COLUMNS = "abcdefghijklmnopqrs"
"""The letters of the columns of a board, or of piles."""
_MIRRORED = ("hex", "dark_hex")
Board = dict[str, str]
"""Name of a cell to its mark, `.` for none."""


def names(observation: Observation) -> tuple[str, ...]:
    """The names of the moves in the menu, one word each."""
    name = _NAMES.get(observation.game.name, lambda _, move, __: move.replace(" ", "_"))
    rows = zip(observation.moves, observation.numbers, strict=True)
    return tuple(name(observation, move, number) for move, number in rows)


def situation(observation: Observation) -> str:
    """Everything the player knows, without the menu."""
    render = _TEXTS.get(observation.game.name)
    return render(observation) if render else observation.text


def cell(column: int, row: int) -> str:
    """The name of a cell: a letter for the column, a number for the row."""
    return f"{COLUMNS[column]}{row + 1}"


def _marks(observation: Observation, board: Board) -> str:
    """The marks on the board as words, the player's own first."""
    own = _own(observation)
    mine = [f"+{cell}" for cell, mark in board.items() if mark == own]
    theirs = [f"-{cell}" for cell, mark in board.items() if mark not in (own, ".", "+")]
    return " ".join(["board", *mine, *theirs])


def _own(observation: Observation) -> str:
    return observation.game.side(observation.seat)[-1]


# Boards whose cells OpenSpiel numbers row by row ------------------------------------------------------------------


def _grid(observation: Observation) -> Board:
    marks = [mark for mark in observation.text if mark in ".xo"]
    size = 3 if "ttt" in observation.game.name or "tac" in observation.game.name else round(len(marks) ** 0.5)
    return {_grid_name(observation, "", number): mark for number, mark in enumerate(marks[: size * size])}


def _grid_name(observation: Observation, move: str, number: int) -> str:
    parameters = observation.game.variants[observation.variant].parameters
    row, column = divmod(number, int(parameters.get("board_size", 3)))
    mirrored = observation.game.name in _MIRRORED and _own(observation) == "o"
    return cell(row, column) if mirrored else cell(column, row)


# Connect four ------------------------------------------------------------------------------------------------------


def _columns(observation: Observation) -> Board:
    rows = [line.split() for line in reversed(observation.text.split("\n"))]
    return {cell(column, row): mark for row, marks in enumerate(rows) for column, mark in enumerate(marks)}


def landing(observation: Observation, move: str, number: int) -> str:
    """The lowest free cell of the column."""
    board = _columns(observation)
    return next(cell for cell, mark in board.items() if cell[0] == COLUMNS[number] and mark == ".")


# Boards whose rows OpenSpiel labels --------------------------------------------------------------------------------


def _labelled(observation: Observation) -> Board:
    rows = [line.split() for line in observation.text.split("\n") if line.strip()[:1].isdigit()]
    return {cell(column, int(label) - 1): mark for label, *marks in rows for column, mark in enumerate(marks)}


def last_word(observation: Observation, move: str, number: int) -> str:
    """The last word of OpenSpiel's name."""
    return move.split()[-1].lower()


# Dots and boxes ----------------------------------------------------------------------------------------------------


def _boxes(observation: Observation) -> str:
    """The number of boxes of both sides, and the missing lines of each open box."""
    parameters = observation.game.variants[observation.variant].parameters
    rows, columns = int(parameters["num_rows"]), int(parameters["num_cols"])
    drawn = set(observation.history)
    lacking = [sorted(box - drawn) for box in sides_of_boxes(rows, columns)]
    open_boxes = [
        " ".join([f"box{len(lines)}", *(_line_name(line, rows, columns) for line in lines)])
        for lines in lacking
        if lines
    ]
    owned = [observation.text.count(str(seat + 1)) for seat in (observation.seat, 1 - observation.seat)]
    return "\n".join([f"own {owned[0]} other {owned[1]}", *sorted(open_boxes)])


def line(observation: Observation, move: str, number: int) -> str:
    """The name of a line between two dots: h or v, row, column."""
    parameters = observation.game.variants[observation.variant].parameters
    return _line_name(number, int(parameters["num_rows"]), int(parameters["num_cols"]))


def _line_name(number: int, rows: int, columns: int) -> str:
    horizontal = (rows + 1) * columns
    if number < horizontal:
        row, column = divmod(number, columns)
        return f"h{row}{column}"
    row, column = divmod(number - horizontal, columns + 1)
    return f"v{row}{column}"


# Piles, dice and cards ---------------------------------------------------------------------------------------------


def _piles(observation: Observation) -> str:
    """Each pile split into heaps of powers of two: the heaps that occur an odd number of times decide the game."""
    counts = [int(count) for count in observation.text.split(":")[1].split()]
    heaps = [f"{COLUMNS[pile]}{1 << bit}" for pile, count in enumerate(counts) for bit in range(8) if count >> bit & 1]
    return " ".join(["piles", *heaps])


def _pile_left(observation: Observation, move: str, number: int) -> str:
    """The pile after the move."""
    counts = [int(count) for count in observation.text.split(":")[1].split()]
    pile, take = (int(part.split(":")[1]) for part in move.rstrip(";").split(", "))
    return f"{COLUMNS[pile - 1]}{counts[pile - 1] - take}"


def _dice(observation: Observation) -> str:
    dice, *bids = observation.text.split()
    return f"dice {' '.join(dice)} bid {bids[-1] if bids else 'none'}"


def _point_card(observation: Observation) -> str:
    found = dict(line.split(": ", 1) for line in observation.text.split("\n") if ": " in line)
    points = found["Points"].split()
    others = [points[seat] for seat in range(len(points)) if seat != observation.seat]
    card = found["Point card sequence"].split()[-1]
    return f"own {points[observation.seat]} other {' '.join(others)}\ncard c{card}"


def _card(observation: Observation, move: str, number: int) -> str:
    return f"c{move.split()[-1]}"


def _with(board: Callable[[Observation], Board]) -> Callable[[Observation], str]:
    return lambda observation: _marks(observation, board(observation))


_TEXTS: dict[str, Callable[[Observation], str]] = {
    "tic_tac_toe": _with(_grid),
    "phantom_ttt": _with(_grid),
    "hex": _with(_grid),
    "dark_hex": _with(_grid),
    "connect_four": _with(_columns),
    "go": _with(_labelled),
    "clobber": _with(_labelled),
    "dots_and_boxes": _boxes,
    "nim": _piles,
    "liars_dice": _dice,
    "goofspiel": _point_card,
}
_NAMES: dict[str, Callable[[Observation, str, int], str]] = {
    "tic_tac_toe": _grid_name,
    "phantom_ttt": _grid_name,
    "hex": _grid_name,
    "dark_hex": _grid_name,
    "connect_four": landing,
    "go": last_word,
    "dots_and_boxes": line,
    "nim": _pile_left,
    "goofspiel": _card,
}


def menu(called: Iterable[str]) -> str:
    """The menu: the numbered moves on one line."""
    return " ".join(["moves", *(f"{number}: {name}" for number, name in enumerate(called, 1))])
