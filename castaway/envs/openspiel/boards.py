"""Values of moves in board games: a look a few moves ahead, and simple heuristics for cells, paths and captures."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import xor
from typing import Any, NamedTuple

from castaway.envs.openspiel.games import Game, MoveValue, Observation, position

FORCING = 9  # longest menu in which forcing moves are searched for; the search time grows with the cube of its length


class Judgement(NamedTuple):
    """What looking ahead tells of the moves, as positions in the menu from 0."""

    wins: tuple[int, ...] = ()  # moves that win at once
    safe: tuple[int, ...] = ()  # moves after which the opponent has not won and cannot win at once
    forcing: tuple[int, ...] = ()  # safe moves after which the player can win at once, whatever the opponent does


def judgement(observation: Observation) -> Judgement:
    if not observation.game.open:
        return Judgement()
    return _judge(observation.game, observation.variant, observation.history)


@lru_cache(maxsize=2**16)  # many episodes share their first moves
def _judge(game: Game, variant: int, history: tuple[int, ...]) -> Judgement:
    state = position(game, variant, history)
    player = state.current_player()
    children = [state.child(action) for action in state.legal_actions()]
    wins = tuple(at for at, child in enumerate(children) if _won(child, player))
    safe = tuple(at for at, child in enumerate(children) if not _can_be_lost(child, player))
    few = len(children) <= FORCING and not wins
    return Judgement(wins, safe, tuple(at for at in safe if few and _cannot_be_answered(children[at], player)))


def _won(state: Any, player: int) -> bool:
    return bool(state.is_terminal() and state.returns()[player] > 0)


def _can_win(state: Any, player: int) -> bool:
    return state.current_player() == player and any(_won(state.child(a), player) for a in state.legal_actions())


def _can_be_lost(state: Any, player: int) -> bool:
    if state.is_terminal():
        return bool(state.returns()[player] < 0)
    other = state.current_player()
    return other != player and _can_win(state, other)


def _cannot_be_answered(state: Any, player: int) -> bool:
    if state.is_terminal() or state.current_player() == player:
        return False
    return all(_can_win(state.child(action), player) for action in state.legal_actions())


_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_OTHER = {"x": "o", "o": "x"}


def grid(observation: Observation) -> tuple[list[str], int]:
    """The marks of a square board row by row, and its size."""
    size = int(observation.parameters.get("board_size", 3))
    return [mark for mark in observation.text if mark in ".xo"][: size * size], size


def three_in_a_row(observation: Observation) -> list[MoveValue]:
    """Tic-tac-toe and phantom tic-tac-toe: complete a line, block, make a pair; then centre, corner, edge."""
    cells, _ = grid(observation)
    own = observation.side

    def move_value(cell: int) -> MoveValue:
        lines = [sorted(cells[other] for other in line if other != cell) for line in _LINES if cell in line]
        if [own, own] in lines:
            return MoveValue(100, "win")
        if [_OTHER[own]] * 2 in lines:
            return MoveValue(50, "block")
        worth, why = (3, "centre") if cell == 4 else (2, "corner") if cell % 2 == 0 else (1, "edge")
        return MoveValue(10 + worth, "pair") if [".", own] in lines else MoveValue(worth, why)

    return [move_value(cell) for cell in observation.numbers]


def drop(observation: Observation) -> list[MoveValue]:
    """Connect four: the closer to the middle column the better."""
    columns = len(observation.text.split("\n")[0].split())
    away = [abs(column - (columns - 1) / 2) for column in observation.numbers]
    return [MoveValue(-distance, "centre" if distance < 1 else "side") for distance in away]


def path(observation: Observation) -> list[MoveValue]:
    """Hex and dark hex: shorten the own path between the sides, lengthen the opponent's."""
    cells, size = grid(observation)
    own, other = observation.side, _OTHER[observation.side]
    mine, theirs = _missing(cells, size, own), _missing(cells, size, other)

    def move_value(cell: int) -> MoveValue:
        after = [*cells[:cell], own, *cells[cell + 1 :]]
        left, right = _missing(after, size, own), _missing(after, size, other)
        row, column = divmod(cell, size)
        # A small bonus for the centre breaks ties between moves that change the paths equally.
        central = abs(2 * row - size + 1) + abs(2 * column - size + 1)
        return MoveValue(right - left - central / 1000, "join" if left < mine else "bar" if right > theirs else "aside")

    return [move_value(cell) for cell in observation.numbers]


def _missing(cells: Sequence[str], size: int, mark: str) -> int:
    """The cells that `mark` still needs to connect its two sides: a shortest path; size squared if cut off."""
    starts = range(size) if mark == "x" else range(0, size * size, size)
    cost = {cell: int(cells[cell] != mark) for cell in starts if cells[cell] in (mark, ".")}
    waiting = list(cost)
    while waiting:
        cell = waiting.pop(0)
        row, column = divmod(cell, size)
        for step_row, step_column in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)):
            to_row, to_column = row + step_row, column + step_column
            if not (0 <= to_row < size and 0 <= to_column < size):
                continue
            to = to_row * size + to_column
            if cells[to] in (mark, ".") and cost[cell] + (cells[to] != mark) < cost.get(to, size * size):
                cost[to] = cost[cell] + (cells[to] != mark)
                waiting.append(to)
    ends = [cell for cell in cost if (cell // size if mark == "x" else cell % size) == size - 1]
    return min((cost[cell] for cell in ends), default=size * size)


def replies(observation: Observation) -> tuple[int, ...]:
    """For each move of the menu, how many moves the other side has after it."""
    return _replies(observation.game, observation.variant, observation.history)


@lru_cache(maxsize=2**12)  # text, expert and teacher ask for the same
def _replies(game: Game, variant: int, history: tuple[int, ...]) -> tuple[int, ...]:
    state = position(game, variant, history)
    left = (state.child(action).legal_actions() for action in state.legal_actions())
    return tuple(0 if game.name == "othello" and moves == [PASS] else len(moves) for moves in left)


TO_THE_END = 5  # longest menu of clobber from which all games are tried


def capture_all(observation: Observation) -> list[MoveValue]:
    """Clobber: win by trying all that can follow; earlier leave an even number of fights, and few moves."""
    state = position(observation.game, observation.variant, observation.history)

    def move_value(action: int, left: int, apart: int) -> MoveValue:
        if left <= TO_THE_END:
            lost = _is_lost(state.child(action))
            return MoveValue(100 if lost else -100 - left, "force" if lost else f"left{left}")
        return MoveValue(-left - 10 * (apart % 2), f"fights{apart}")

    return [
        move_value(*each) for each in zip(observation.numbers, replies(observation), fights(observation), strict=True)
    ]


def _is_lost(state: Any) -> bool:
    """Whether the side to move loses, however it moves, if who cannot move loses."""
    return not any(_is_lost(state.child(action)) for action in state.legal_actions())


def fights(observation: Observation) -> tuple[int, ...]:
    """For each move of clobber, how many groups of touching marks of both sides there are after it.

    Each is a game of its own; if all of them are of two marks, who moves first wins where their number is odd.
    """
    return _fights_after(observation.game, observation.variant, observation.history)


@lru_cache(maxsize=2**12)
def _fights_after(game: Game, variant: int, history: tuple[int, ...]) -> tuple[int, ...]:
    state = position(game, variant, history)
    return tuple(_fights(str(state.child(action))) for action in state.legal_actions())


def _fights(text: str) -> int:
    rows = [line.strip()[1:] for line in text.split("\n") if line.strip()[:1].isdigit()]
    waiting = {(row, column): mark for row, line in enumerate(rows) for column, mark in enumerate(line) if mark != "."}
    found = 0
    while waiting:
        near, marks = [next(iter(waiting))], set[str]()
        while near:
            row, column = near.pop()
            if mark := waiting.pop((row, column), ""):
                marks.add(mark)
                near += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        found += len(marks) > 1
    return found


def boxes(observation: Observation) -> list[MoveValue]:
    """Dots and boxes: close a box; otherwise draw a line that gives no box away, or as few as possible."""
    sides, drawn = sides_of_boxes(observation.parameters), set(observation.history)

    def closed(lines: set[int]) -> int:
        return sum(box <= lines for box in sides)

    def move_value(line: int) -> MoveValue:
        lines = drawn | {line}
        gained = closed(lines) - closed(drawn)
        # The opponent closes every box that lacks one line, and each closed box may open the next one.
        given = set(lines)
        while third := next((box - given for box in sides if len(box - given) == 1), None):
            given |= third
        lost = closed(given) - closed(lines)
        if gained:
            return MoveValue(100 * gained + lost, "box")
        return MoveValue(-lost, f"gives{lost}" if lost else "keeps")

    return [move_value(line) for line in observation.numbers]


def sides_of_boxes(parameters: Mapping[str, int]) -> list[set[int]]:
    """The four lines of each box, by OpenSpiel's move numbers, which count all horizontal lines first."""
    rows, columns = parameters["num_rows"], parameters["num_cols"]
    upright = [(rows + 1) * columns + row * (columns + 1) for row in range(rows)]
    return [
        {row * columns + column, (row + 1) * columns + column, upright[row] + column, upright[row] + column + 1}
        for row in range(rows)
        for column in range(columns)
    ]


def piles(observation: Observation) -> list[MoveValue]:
    """Misere nim (taking the last object loses): leave a nim sum of 0, or at the end an odd number of piles of one.

    The nim sum is the XOR of the pile sizes. The reason names its bits first: split into heaps of powers of two, it
    says of which heaps there is an odd number.
    """
    counts = pile_sizes(observation)
    heaps = [1 << bit for bit in reversed(range(max(counts).bit_length()))]
    odd = " ".join(["odd", *(str(heap) for heap in heaps if sum(count & heap > 0 for count in counts) % 2)])

    def move_value(name: str) -> MoveValue:
        pile, take = pile_and_take(name)
        left = [count - take * (number == pile) for number, count in enumerate(counts)]
        good = reduce(xor, left) == 0 if max(left) > 1 else sum(left) % 2 == 1
        return MoveValue(1, f"{odd} balance") if good else MoveValue(0, f"{odd} uneven")

    return [move_value(name) for name in observation.moves]


def pile_sizes(observation: Observation) -> list[int]:
    return [int(count) for count in observation.text.split(":")[1].split()]


def pile_and_take(move: str) -> tuple[int, int]:
    pile, take = (int(part.split(":")[1]) for part in move.rstrip(";").split(", "))
    return pile - 1, take


def stones(observation: Observation) -> list[MoveValue]:
    """Go: capture stones, keep liberties, do not fill own eyes, and pass last."""
    state = position(observation.game, observation.variant, observation.history)
    own = "X" if observation.seat == 0 else "O"
    before = _count(str(state), own)

    def move_value(action: int, name: str) -> MoveValue:
        if name.endswith("PASS"):
            return MoveValue(-500, "pass")
        after = _count(str(state.child(action)), own)
        worth = 4 * (after[0] - after[1]) + after[2] - after[3]
        if after[1] < before[1]:
            return MoveValue(worth, "capture")
        # Fewer own liberties than before: the stone fills points of the player's own territory.
        return MoveValue(worth - 1000, "fill") if after[2] < before[2] else MoveValue(worth, "spread")

    return [move_value(action, name) for action, name in zip(observation.numbers, observation.moves, strict=True)]


def _count(text: str, own: str) -> tuple[int, int, int, int]:
    rows = [line.split(" ")[-1] for line in text.split("\n") if line.strip()[:1].isdigit()]
    board = {(row, column): stone for row, line in enumerate(rows) for column, stone in enumerate(line)}
    touching = [
        {board.get((row + down, column + right)) for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))}
        for (row, column), stone in board.items()
        if stone == "+"
    ]
    other, stones = "O" if own == "X" else "X", "".join(rows)
    liberties = [sum(colour in stones_near for stones_near in touching) for colour in (own, other)]
    return stones.count(own), stones.count(other), liberties[0], liberties[1]


OTHELLO_SIZE = 8
PASS = OTHELLO_SIZE**2  # OpenSpiel's number of the only move of a player of Othello that cannot place a disc


def reversi(observation: Observation) -> list[MoveValue]:
    """Othello: corners, then borders, not next to an empty corner; apart from that leave the opponent few moves."""
    last, text = OTHELLO_SIZE - 1, observation.text.split("\n")[2:-1]
    empty = {(row, column) for row in (0, last) for column in (0, last) if text[row].split()[1 + column] == "-"}

    def move_value(action: int, left: int) -> MoveValue:
        if action == PASS:
            return MoveValue(0, "pass")
        row, column = divmod(action, OTHELLO_SIZE)
        if (row, column) in empty:
            return MoveValue(100, "corner")
        if any(abs(row - one) <= 1 and abs(column - other) <= 1 for one, other in empty):
            return MoveValue(-50 - left, "beside")
        border = row in (0, last) or column in (0, last)
        return MoveValue(5 * border - left, "border" if border else "inside")

    return [move_value(*both) for both in zip(observation.numbers, replies(observation), strict=True)]
