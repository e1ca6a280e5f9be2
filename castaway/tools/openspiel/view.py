"""The view of OpenSpiel: bar charts of the games, and boards."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from castaway.envs.openspiel.games import GAMES, load_variant
from castaway.envs.openspiel.task import OpenSpiel
from castaway.rollout.episodes import Row
from castaway.tools.view import Chart, TaskView

MARKS = ("x", "o")
DRAWN = ("tic_tac_toe", "connect_four")  # the games whose state OpenSpiel writes as a grid of marks, and nothing else
WIDTH = 80
GAP = "   "
Board = tuple[str, ...]  # the rows of a board, a letter for each cell


class OpenSpielView(TaskView):
    def state(self, moment: Row) -> Iterable[str]:
        """The board; of a game without one, the plain values."""
        return [" ".join(row) for row in boards_of(moment)[-1]] if has_board(moment) else super().state(moment)

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """The success rates of all players in each game, one chart for each kind of opponent."""
        main, *others = OpenSpiel.evaluation_seats
        prefixes = {main: "", **{seat: f"{seat}_" for seat in others}}
        return {f"games_{seat}.svg": (metrics["games"], f"{prefix}success_rate") for seat, prefix in prefixes.items()}

    def brief(self, rows: Sequence[Row]) -> list[str]:
        """The last boards of the game, one for each move; of a game without a board, its last turn."""
        head, last = rows[0], rows[-1]
        if not has_board(last):
            return super().brief(rows)
        model = MARKS[last["seat"]]
        ending = str(head.get("ending", "")).removeprefix(f"{last['game']} ")
        other = "a random player" if head["seat"] == "random" else f"`{head['seat']}`"
        return [f"The model plays {model} against {other}: {ending}.", *draw_boards(last)]


def has_board(moment: Row) -> bool:
    return moment.get("game") in DRAWN and isinstance(moment.get("history"), list)


def draw_boards(moment: Row) -> list[str]:
    """The last boards that fit next to each other, below the numbers of the moves; a new mark is a capital letter."""
    boards = []
    for number, (before, after) in enumerate(pairwise(boards_of(moment)), start=1):
        pairs = [zip(old, new, strict=True) for old, new in zip(before, after, strict=True)]
        rows = [" ".join(mark if mark == old else mark.upper() for old, mark in pair) for pair in pairs]
        new = next(mark for mark in "".join(rows) if mark.isupper())
        boards.append([f"{number} {new.lower()}", *rows])
    width = len(boards[0][1])
    most = (WIDTH + len(GAP)) // (width + len(GAP))
    return [GAP.join(text.ljust(width) for text in line).rstrip() for line in zip(*boards[-most:], strict=True)]


def boards_of(moment: Row) -> list[Board]:
    game = next(game for game in GAMES if game.name == moment["game"])
    state = load_variant(game, [one.name for one in game.variants].index(moment["variant"])).new_initial_state()
    boards = [tuple(str(state).split())]
    for move in moment["history"]:
        state.apply_action(move)
        boards.append(tuple(str(state).split()))
    return boards
