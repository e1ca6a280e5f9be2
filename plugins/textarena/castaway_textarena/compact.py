"""The compact rendering, for small models: the newest board and the latest messages, one word for each fact.

Boards that are tables become words too: a mark with the name of its cell, a letter for the column and a number for the
row, so that no empty cells have to be counted. A few games have a rendering of their own; others get this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from castaway_textarena.negotiation import standing
from castaway_textarena.observation import Observation

_LISTS = re.compile(r"^(available|valid|legal) (moves|actions)", re.IGNORECASE)
"""Lines of a board that list the moves, which come last in any case."""
_RECENT = 4
"""How many of the latest messages are shown."""
_MOST_MOVES = 30
"""A longer list of moves is left out: the context of a tiny model is short."""


def situation(seen: Observation) -> str:
    """Everything that is shown of an observation."""
    from castaway_textarena.catalogue import family

    render = _OWN.get(family(seen.game), _any_game)
    listed = ["moves", *seen.legal] if 0 < len(seen.legal) <= _MOST_MOVES else []
    return "\n".join(line for line in [render(seen), " ".join(listed)] if line) or "start"


def bare(move: str) -> str:
    """A move without its brackets."""
    return move.replace("[", "").replace("]", "")


def _any_game(seen: Observation) -> str:
    lines = [" ".join(text.split()) for text in seen.messages[-_RECENT:]]
    said = [f"{sender}: {' '.join(text.split())[:200]}" for sender, text in seen.talk[-2:]]
    return "\n".join([*lines, *said, *_table(seen.board)])


def _table(board: str) -> list[str]:
    """The lines of a board: those with cells as marks with their cells, others as they are."""
    found, row = [], 0
    for line in board.split("\n"):
        if not line.strip() or _LISTS.match(line.strip()) or not re.search(r"\w", line):
            row += bool(re.search(r"[|#.]", line))
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else line.split()
        if len(cells) > 2 and all(len(cell) <= 3 for cell in cells):
            row += 1
            marks = [f"{mark}{cell_name(column, row)}" for column, mark in enumerate(cells) if mark not in ("", ".")]
            found.append(" ".join(marks))
        else:
            found.append(" ".join(line.split()))
    return [line for line in found if line]


def cell_name(column: int, row: int) -> str:
    """A letter for the column, from 0, and the number of the row, from 1."""
    return f"{'abcdefghijklmnopqrstuvwxyz'[column % 26]}{row}"


# Games with a rendering of their own ---------------------------------------------------------------------------------


def _lake(seen: Observation) -> str:
    """Where the player is, then the goal, then the holes."""
    rows = [line.strip().strip("|").split("|") for line in seen.board.split("\n") if line.strip().startswith("|")]
    cells = {
        cell_name(column, row): mark.strip() for row, line in enumerate(rows, 1) for column, mark in enumerate(line)
    }
    ordered = [f"{wanted}{name}" for wanted in "PGH" for name, mark in cells.items() if mark == wanted]
    return " ".join(ordered)


def _three_in_a_row(seen: Observation) -> str:
    """The player's marks with `+`, the other's with `-`; a cell is named by its number, as in moves."""
    own = "X" if seen.player == 1 else "O"
    marks = re.findall(r"[XO\d]", seen.board.split("Available")[0].split(":", 1)[-1])
    mine = [f"+{cell}" for cell, mark in enumerate(marks) if mark == own]
    theirs = [f"-{cell}" for cell, mark in enumerate(marks) if mark in "XO" and mark != own]
    return " ".join(["board", *mine, *theirs])


def _kuhn(seen: Observation) -> str:
    """The round, the player's card and lead, and what was said in this round, in order."""
    texts = [text for _, text, kind in seen.shown if kind != "PROMPT"]
    starts = [number for number, text in enumerate(texts) if text.startswith("### Starting round")]
    numbers = re.findall(r"\d+", texts[starts[-1]])
    card = texts[starts[-1]].rsplit("'", 2)[-2]
    scores = re.findall(r"Player (\d): '(-?\d+)'", " ".join(texts[: starts[-1]]))[-2:]
    lead = sum(int(chips) * (1 if int(player) == seen.player else -1) for player, chips in scores) // 2
    said = re.findall(r"submitted move: '\[(\w+)\]'", " ".join(texts[starts[-1] :]))
    return " ".join([f"round {numbers[0]} card {card} lead {lead:+d}", "said", *(said or ["nothing"])])


def _negotiation(seen: Observation) -> str:
    """What each good is worth to the player, how much it has of it now, and the newest offer to it."""
    now = standing(seen)
    goods = [f"{good} {now.held[good]} worth {now.values[good]}" for good in now.values]
    offer = f"offer get {' '.join(now.offered)} give {' '.join(now.asked)}" if now.offered else "no offer"
    return "\n".join([*goods, offer, f"turn {now.turn}"])


_OWN: dict[str, Callable[[Observation], str]] = {
    "FrozenLake": _lake,
    "TicTacToe": _three_in_a_row,
    "KuhnPoker": _kuhn,
    "SimpleNegotiation": _negotiation,
}
