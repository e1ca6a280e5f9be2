"""Situations and moves as text, in two renderings; games without a function here keep OpenSpiel's text and names.

- `compact`, for small models: one word for each fact. A cell has the same name on every board, a letter for the column
  and a number for the row; `+a1` is the player's own mark and `-a1` the opponent's. So a position is a set of words,
  and no empty cells have to be counted. Where a tiny model would have to count for each move, the moves stand behind
  the number: `left3 c4 f5`. In Hex the player that connects left and right sees the board mirrored, so that both sides
  play the same game.
- `full`, for people and instruct models: boards are drawn with letters for the columns and numbers for the rows, and a
  move is called by the cell that it is made in. Games without a function of this rendering are never trained.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from castaway.envs.openspiel import cards, chess, tricks
from castaway.envs.openspiel.boards import (
    OTHELLO_SIZE,
    fights,
    grid,
    pile_and_take,
    pile_sizes,
    replies,
    sides_of_boxes,
)
from castaway.envs.openspiel.games import Observation

COLUMNS = "abcdefghijklmnopqrs"  # the letters of the columns of a board, or of piles
Text = Callable[[Observation], str]  # everything that the player knows, without the menu
Name = Callable[[Observation, str, int], str]  # the name of a move, from OpenSpiel's name and number of it


def names(observation: Observation) -> tuple[str, ...]:
    """The names of the moves in the menu; in the compact rendering each is one word."""
    name = _NAMES.get(observation.game.name, _own_name)
    return tuple(name(observation, *move) for move in zip(observation.moves, observation.numbers, strict=True))


def situation(observation: Observation) -> str:
    compact, full = _TEXTS.get(observation.game.name, (_own_text, _own_text))
    return (full if observation.rendering == "full" else compact)(observation)


def user_text(observation: Observation) -> str:
    side = observation.side
    # Where seats have no names, all players are alike.
    who = f"You are {side.upper() if len(side) == 1 else side}. " if observation.game.sides else ""
    return f"{who}It is your turn.\n{situation(observation)}\nMoves: {', '.join(names(observation))}"


def title(observation: Observation) -> str:
    game, variant = observation.game, observation.game.variants[observation.variant].name
    called = game.title or game.name.replace("_", " ")
    return called if variant == "standard" else f"{called}, {variant}"


def rules(observation: Observation) -> str:
    return f"{observation.game.line} {observation.game.further.format(**observation.parameters)}".strip()


# Boards ------------------------------------------------------------------------------------------------------------


_own_text: Text = attrgetter("text")


def _own_name(observation: Observation, move: str, number: int) -> str:
    return move if observation.rendering == "full" else move.replace(" ", "_")


def _cell(column: int, row: int) -> str:
    return f"{COLUMNS[column]}{row + 1}"


def _board(observation: Observation, cells: Iterable[tuple[str, str]]) -> str:
    own, marked = observation.side[-1], list(cells)
    mine = [f"+{cell}" for cell, mark in marked if mark == own]
    theirs = [f"-{cell}" for cell, mark in marked if mark not in (own, ".", "+")]
    return " ".join(["board", *mine, *theirs])


def _drawing(rows: Iterable[Iterable[str]], labels: Iterable[object], slant: int = 0) -> str:
    """A board with letters above its columns and numbers before its rows, each row `slant` further to the right."""
    shown = [" ".join(mark.upper() for mark in row).replace("+", ".") for row in rows]
    letters = " ".join(COLUMNS[: len(shown[0].split())])
    numbered = [f"{' ' * (slant * at)}{label} {row}" for at, (label, row) in enumerate(zip(labels, shown, strict=True))]
    return "\n".join([f"  {letters}", *numbered])


# Square boards, whose cells OpenSpiel numbers row by row
def _grid_board(observation: Observation) -> str:
    marks, _ = grid(observation)
    return _board(observation, ((_square(observation, "", at), mark) for at, mark in enumerate(marks)))


def _square(observation: Observation, move: str, number: int) -> str:
    row, column = divmod(number, int(observation.parameters.get("board_size", 3)))
    mirrored = observation.rendering != "full" and "hex" in observation.game.name and observation.side == "o"
    return _cell(row, column) if mirrored else _cell(column, row)


def _grid_drawing(observation: Observation) -> str:
    marks, size = grid(observation)
    if not observation.game.open:  # where the player has not looked
        marks = ["?" if mark == "." else mark for mark in marks]
    rows = [marks[start : start + size] for start in range(0, size * size, size)]
    board = _drawing(rows, range(1, size + 1), slant=int("hex" in observation.game.name))
    return "\n".join([board, *(line for line in observation.text.split("\n") if ":" in line)])


def _columns(observation: Observation) -> list[list[str]]:
    return [line.split() for line in observation.text.split("\n")]


def _columns_cells(observation: Observation) -> Iterator[tuple[str, str]]:
    for row, marks in enumerate(reversed(_columns(observation))):
        yield from ((_cell(column, row), mark) for column, mark in enumerate(marks))


def _columns_drawing(observation: Observation) -> str:
    rows = _columns(observation)
    return _drawing(rows, range(len(rows), 0, -1))


def _landing(observation: Observation, move: str, number: int) -> str:
    return next(cell for cell, mark in _columns_cells(observation) if cell[0] == COLUMNS[number] and mark == ".")


# Go and clobber, whose rows OpenSpiel labels
def _labelled(observation: Observation) -> list[list[str]]:
    return [line.split() for line in observation.text.split("\n") if line.strip()[:1].isdigit()]


def _labelled_board(observation: Observation) -> str:
    rows = _labelled(observation)
    cells = ((_cell(at, int(label) - 1), mark) for label, *marks in rows for at, mark in enumerate(marks))
    return _board(observation, cells)


def _labelled_drawing(observation: Observation) -> str:
    rows = _labelled(observation)
    return _drawing([marks for _, *marks in rows], [label for label, *_ in rows])


# Clobber and Othello
def _by(word: str, counts: Iterable[int], observation: Observation) -> str:
    """The moves by a number that they have in common, lowest first: `left3 c4 f5`; no moves if all have the same."""
    by_count: dict[int, list[str]] = {}
    for count, name in zip(counts, names(observation), strict=True):
        by_count.setdefault(count, []).append(name)
    if len(by_count) == 1:
        by_count = {count: [] for count in by_count}
    return "\n".join(" ".join([f"{word}{count}", *moves]) for count, moves in sorted(by_count.items()))


def _clobber(observation: Observation) -> str:
    return f"{_labelled_board(observation)}\n{_by('fights', fights(observation), observation)}"


def _step(observation: Observation, move: str, number: int) -> str:
    return f"{move[:2]}-{move[2:]}" if observation.rendering == "full" else move


def _discs(observation: Observation) -> list[list[str]]:
    """The rows of Othello's board, from 1 to 8."""
    return [[mark.replace("-", ".").upper() for mark in marks] for _, *marks, _ in _labelled(observation)]


def _othello(observation: Observation) -> str:
    """The discs of both sides in number, and who has which corner: all others can still be turned."""
    rows, ends = _discs(observation), (0, OTHELLO_SIZE - 1)
    own, other = (sum(row.count(mark) for row in rows) for mark in _both(observation))
    corners = _board(observation, ((_cell(column, row), rows[row][column]) for row in ends for column in ends))
    return f"own {own} other {other}\n{corners}\n{_by('left', replies(observation), observation)}"


def _both(observation: Observation) -> tuple[str, str]:
    """The mark of the player and that of the other side."""
    own, other = observation.side, observation.game.side(1 - observation.seat)
    return own[-1], other[-1]


def _othello_drawing(observation: Observation) -> str:
    return _drawing(_discs(observation), range(1, OTHELLO_SIZE + 1))


# Dots and boxes
def _boxes(observation: Observation) -> str:
    """The boxes by how many lines they lack, each with these lines."""
    drawn = set(observation.history)
    lacking = [sorted(box - drawn) for box in sides_of_boxes(observation.parameters)]
    boxes = [[f"box{len(lines)}", *(_line(observation, "", line) for line in lines)] for lines in lacking if lines]
    return "\n".join(["own {} other {}".format(*_closed(observation)), *sorted(map(" ".join, boxes))])


def _closed(observation: Observation) -> tuple[int, int]:
    """How many boxes the player has closed, and how many the other side."""
    own, other = (observation.text.count(str(seat + 1)) for seat in (observation.seat, 1 - observation.seat))
    return own, other


def _line(observation: Observation, move: str, number: int) -> str:
    """The name of a line: the two dots that it joins."""
    rows, columns = observation.parameters["num_rows"], observation.parameters["num_cols"]
    upright = number - (rows + 1) * columns
    row, column = divmod(number, columns) if upright < 0 else divmod(upright, columns + 1)
    end = _cell(column + (upright < 0), row + (upright >= 0))
    return f"{_cell(column, row)}{'-' if observation.rendering == 'full' else ''}{end}"


_STROKES = str.maketrans({**dict.fromkeys("┌┬┐├┼┤└┴┘", "+"), "─": "-", "│": "|", "╴": " ", "╶": " "})


def _boxes_drawing(observation: Observation) -> str:
    """The dots with their letters and numbers, the lines, and in each closed box the number of its owner."""
    rows = observation.text.translate(_STROKES).split("\n")
    letters = "   ".join(COLUMNS[: observation.parameters["num_cols"] + 1])
    drawn = [f"{' ' if at % 2 else at // 2 + 1} {row}".rstrip() for at, row in enumerate(rows)]
    closed = "Boxes: you {}, the other {}".format(*_closed(observation))
    return "\n".join([f"  {letters}", *drawn, closed])


# Piles, dice and cards ---------------------------------------------------------------------------------------------


def _heaps(observation: Observation) -> str:
    """Each pile split into heaps of powers of two: the heaps that occur an odd number of times decide the game."""
    sizes = enumerate(pile_sizes(observation))
    heaps = (f"{COLUMNS[pile]}{1 << bit}" for pile, size in sizes for bit in range(8) if size >> bit & 1)
    return " ".join(["piles", *heaps])


def _piles(observation: Observation) -> str:
    sizes = (f"{COLUMNS[pile].upper()} {size}" for pile, size in enumerate(pile_sizes(observation)))
    return f"Piles: {', '.join(sizes)}"


def _take(observation: Observation, move: str, number: int) -> str:
    pile, take = pile_and_take(move)
    if observation.rendering == "full":
        return f"{take} from {COLUMNS[pile].upper()}"
    return f"{COLUMNS[pile]}{pile_sizes(observation)[pile] - take}"


def _last_bid(observation: Observation) -> str:
    dice, *bids = observation.text.split()
    return f"dice {' '.join(dice)} bid {bids[-1] if bids else 'none'}"


def _all_bids(observation: Observation) -> str:
    dice, *bids = observation.text.split()
    return f"Your dice: {' '.join(dice)}\nBids so far: {', '.join(bids) or 'none'}"


def _fields(observation: Observation) -> dict[str, list[str]]:
    lines = (line.split(":", 1) for line in observation.text.split("\n") if ":" in line)
    return {label: words.split() for label, words in lines}


def _point_card(observation: Observation) -> str:
    fields = _fields(observation)
    own, points = observation.seat, fields["Points"]
    return f"own {points[own]} other {points[1 - own]}\ncard c{fields['Point card sequence'][-1]}"


def _rounds(observation: Observation) -> str:
    fields = _fields(observation)
    own, points = observation.seat, fields["Points"]
    *past, card = fields["Point card sequence"]
    winners = fields["Win sequence"]
    ends = ["won" if winner == str(own) else "lost" if int(winner) >= 0 else "tied" for winner in winners]
    # OpenSpiel counts the cards from 0 where it lists what was played.
    played = zip(past, fields[f"P{own} action sequence"], ends, strict=True)
    earlier = ", ".join(f"{point} (you bid {int(bid) + 1}, {end})" for point, bid, end in played) or "none"
    return f"Point card: {card}\nPoints: you {points[own]}, the other {points[1 - own]}\nEarlier point cards: {earlier}"


def _card(observation: Observation, move: str, number: int) -> str:
    return f"{'card ' if observation.rendering == 'full' else 'c'}{move.split()[-1]}"


_SQUARE = ("tic_tac_toe", "phantom_ttt", "hex", "dark_hex")
_TEXTS: dict[str, tuple[Text, Text]] = {
    **dict.fromkeys(_SQUARE, (_grid_board, _grid_drawing)),
    "connect_four": (lambda observation: _board(observation, _columns_cells(observation)), _columns_drawing),
    "go": (_labelled_board, _labelled_drawing),
    "clobber": (_clobber, _labelled_drawing),
    "dots_and_boxes": (_boxes, _boxes_drawing),
    "othello": (_othello, _othello_drawing),
    "dark_chess": (chess.pieces, chess.drawing),
    "nim": (_heaps, _piles),
    "liars_dice": (_last_bid, _all_bids),
    "goofspiel": (_point_card, _rounds),
    "kuhn_poker": (cards.kuhn, cards.kuhn_full),
    "leduc_poker": (cards.leduc, cards.leduc_full),
    "pig": (cards.pig, cards.pig_full),
    "blackjack": (cards.blackjack, cards.blackjack_full),
    "sheriff": (cards.sheriff, cards.sheriff_full),
    "euchre": (tricks.euchre, tricks.euchre_full),
    "hearts": (tricks.hearts, tricks.hearts_full),
    "oh_hell": (tricks.oh_hell, tricks.oh_hell_full),
}
_NAMES: dict[str, Name] = {
    **dict.fromkeys(_SQUARE, _square),
    "connect_four": _landing,
    "go": lambda observation, move, number: move.split()[-1].lower(),
    "clobber": _step,
    "dots_and_boxes": _line,
    "dark_chess": chess.name_of,
    "nim": _take,
    "goofspiel": _card,
    **dict.fromkeys(("kuhn_poker", "leduc_poker"), cards.bet_name),
    "sheriff": cards.sheriff_name,
    **dict.fromkeys(("euchre", "hearts", "oh_hell"), tricks.name),
}
