"""The full rendering of situations and moves, for people and instruct models.

Boards are drawn with letters for the columns and numbers for the rows, and a move is called by the cell that it is
made in. Games without a function here keep OpenSpiel's own text and names; none of them is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from castaway.envs.openspiel.compact import COLUMNS, cell, landing, last_word, line
from castaway.envs.openspiel.observation import Observation

TITLES = {"tic_tac_toe": "tic-tac-toe", "phantom_ttt": "phantom tic-tac-toe", "liars_dice": "liar's dice"}
"""Games that are called otherwise than OpenSpiel calls them."""


def title(observation: Observation) -> str:
    """The game and its variant, as people call them."""
    game = observation.game
    variant = game.variants[observation.variant].name
    called = TITLES.get(game.name, game.name.replace("_", " "))
    return called if variant == "standard" else f"{called}, {variant}"


def rules(observation: Observation) -> str:
    """The rules in a few sentences; the same for all sides and turns of a variant."""
    game = observation.game
    further = _RULES.get(game.name, "")
    return " ".join([game.line, further.format(**game.variants[observation.variant].parameters)]).strip()


def names(observation: Observation) -> tuple[str, ...]:
    """The names of the moves in the menu."""
    name = _NAMES.get(observation.game.name, lambda _, move, __: move)
    rows = zip(observation.moves, observation.numbers, strict=True)
    return tuple(name(observation, move, number) for move, number in rows)


def user_text(observation: Observation) -> str:
    """The user message: who the player is, everything it knows, and the legal moves."""
    render = _TEXTS.get(observation.game.name)
    shown = render(observation) if render else observation.text
    return f"{_who(observation)}It is your turn.\n{shown}\nMoves: {', '.join(names(observation))}"


def _who(observation: Observation) -> str:
    """`You are X.`, `You are Black, X.` or `You are player 1.`; in some games all players are alike."""
    if observation.game.name in _ALIKE:
        return ""
    side = observation.game.side(observation.seat)
    return f"You are {side.upper() if len(side) == 1 else side}. "


_ALIKE = ("nim", "liars_dice", "goofspiel")
"""Games whose text speaks of the player and the others, or does not need to."""

# Boards ------------------------------------------------------------------------------------------------------------


def _drawn(rows: Sequence[Iterable[str]], labels: Iterable[object], slant: int = 0) -> str:
    """A board with letters above its columns and numbers before its rows, each row `slant` further to the right."""
    shown = [" ".join(mark.upper() for mark in row).replace("+", ".") for row in rows]
    letters = " ".join(COLUMNS[: len(shown[0].split())])
    numbered = [f"{' ' * (slant * at)}{label} {row}" for at, (label, row) in enumerate(zip(labels, shown, strict=True))]
    return "\n".join([f"  {letters}", *numbered])


def _grid(observation: Observation) -> str:
    """A square board whose cells OpenSpiel numbers row by row; `?` where the player has not looked."""
    size = _size(observation)
    marks = "".join(mark for mark in observation.text if mark in ".xo")[: size * size]
    if not observation.game.open:
        marks = marks.replace(".", "?")
    rows = [marks[start : start + size] for start in range(0, size * size, size)]
    board = _drawn(rows, range(1, size + 1), slant=int("hex" in observation.game.name))
    return "\n".join([board, *(line for line in observation.text.split("\n") if ":" in line)])


def _size(observation: Observation) -> int:
    return int(observation.game.variants[observation.variant].parameters.get("board_size", 3))


def _square(observation: Observation, move: str, number: int) -> str:
    row, column = divmod(number, _size(observation))
    return cell(column, row)


def _columns(observation: Observation) -> str:
    rows = [row.split() for row in observation.text.split("\n")]
    return _drawn(rows, range(len(rows), 0, -1))


def _labelled(observation: Observation) -> str:
    """A board whose rows OpenSpiel labels."""
    rows = [row.split() for row in observation.text.split("\n") if row.strip()[:1].isdigit()]
    return _drawn([marks for _, *marks in rows], [label for label, *_ in rows])


# Piles, dice and cards ---------------------------------------------------------------------------------------------


def _piles(observation: Observation) -> str:
    counts = observation.text.split(":")[1].split()
    return f"Piles: {', '.join(f'{COLUMNS[pile].upper()} {count}' for pile, count in enumerate(counts))}"


def _taken(observation: Observation, move: str, number: int) -> str:
    pile, take = (int(part.split(":")[1]) for part in move.rstrip(";").split(", "))
    return f"{take} from {COLUMNS[pile - 1].upper()}"


def _dice(observation: Observation) -> str:
    dice, *bids = observation.text.split()
    return f"Your dice: {' '.join(dice)}\nBids so far: {', '.join(bids) or 'none'}"


def _rounds(observation: Observation) -> str:
    """The point card, the points, and what the player knows of the rounds before."""
    found = dict(line.split(":", 1) for line in observation.text.split("\n"))
    own, points = observation.seat, found["Points"].split()
    *past, card = found["Point card sequence"].split()
    bids, winners = found[f"P{own} action sequence"].split(), found["Win sequence"].split()
    ends = ["won" if winner == str(own) else "lost" if int(winner) >= 0 else "tied" for winner in winners]
    # OpenSpiel counts the cards from 0 where it lists what was played.
    rounds = [f"{point} (you bid {int(bid) + 1}, {end})" for point, bid, end in zip(past, bids, ends, strict=True)]
    earlier = f"Earlier point cards: {', '.join(rounds) or 'none'}"
    return f"Point card: {card}\nPoints: you {points[own]}, the other {points[1 - own]}\n{earlier}"


def _card(observation: Observation, move: str, number: int) -> str:
    return f"card {move.split()[-1]}"


def _bid(observation: Observation, move: str, number: int) -> str:
    """A number alone is no name: `0` would be the idle action."""
    return f"bid {move}" if move.isdigit() else move


_TEXTS: dict[str, Callable[[Observation], str]] = {
    "tic_tac_toe": _grid,
    "phantom_ttt": _grid,
    "hex": _grid,
    "dark_hex": _grid,
    "connect_four": _columns,
    "go": _labelled,
    "nim": _piles,
    "liars_dice": _dice,
    "goofspiel": _rounds,
}
_NAMES: dict[str, Callable[[Observation, str, int], str]] = {
    "tic_tac_toe": _square,
    "phantom_ttt": _square,
    "hex": _square,
    "dark_hex": _square,
    "connect_four": landing,
    "go": last_word,
    "dots_and_boxes": line,
    "nim": _taken,
    "goofspiel": _card,
    "oh_hell": _bid,
}
_NEIGHBOURS = "b2 touches a2, c2, b1, c1, a3 and b3."
_RULES = {
    "connect_four": "A move is called by the cell where the mark lands.",
    "phantom_ttt": "? is a cell that you know nothing of.",
    "dark_hex": f"{_NEIGHBOURS} ? is a cell that you know nothing of.",
    "hex": _NEIGHBOURS,
    "nim": "2 from B takes two from pile B.",
    "liars_dice": "Dice each: {numdice}. 2-5 bids two fives.",
    "go": "Komi is {komi}.",
}
"""Game to what this rendering adds to the rules in the catalogue."""
