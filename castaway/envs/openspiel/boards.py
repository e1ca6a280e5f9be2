"""Values of moves in board games, by simple heuristics on the board: position of a cell, paths, captures."""

from __future__ import annotations

from collections.abc import Sequence

from castaway.envs.openspiel.move_value import MoveValue
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.tactics import position

_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_OTHER = {"x": "o", "o": "x"}


def three_in_a_row(observation: Observation) -> list[MoveValue]:
    """Tic-tac-toe and phantom tic-tac-toe: complete a line, block, make a pair; then centre, corner, edge."""
    cells = [mark for mark in observation.text if mark in ".xo"][:9]
    own = observation.game.side(observation.seat)

    def move_value(cell: int) -> MoveValue:
        beside = [sorted(cells[other] for other in line if other != cell) for line in _LINES if cell in line]
        if [own, own] in beside:
            return MoveValue(100, "win")
        if [_OTHER[own]] * 2 in beside:
            return MoveValue(50, "block")
        worth, why = (3, "centre") if cell == 4 else (2, "corner") if cell % 2 == 0 else (1, "edge")
        return MoveValue(10 + worth, "pair") if [".", own] in beside else MoveValue(worth, why)

    return [move_value(cell) for cell in observation.numbers]


def drop(observation: Observation) -> list[MoveValue]:
    """Connect four: the closer to the middle column the better."""
    columns = len(observation.text.split("\n")[0].split())
    away = [abs(column - (columns - 1) / 2) for column in observation.numbers]
    return [MoveValue(-distance, "centre" if distance < 1 else "side") for distance in away]


def path(observation: Observation) -> list[MoveValue]:
    """Hex and dark hex: shorten the own path between the sides, lengthen the opponent's."""
    cells = [mark for mark in observation.text if mark in ".xo"]
    size = round(len(cells) ** 0.5)
    own = observation.game.side(observation.seat)
    other = _OTHER[own]
    mine, theirs = missing(cells, size, own), missing(cells, size, other)
    move_values = []
    for cell in observation.numbers:
        after = [*cells[:cell], own, *cells[cell + 1 :]]
        left, right = missing(after, size, own), missing(after, size, other)
        row, column = divmod(cell, size)
        # A small bonus for the centre breaks ties between moves that change the paths equally.
        central = abs(2 * row - size + 1) + abs(2 * column - size + 1)
        why = "join" if left < mine else "bar" if right > theirs else "aside"
        move_values.append(MoveValue(right - left - central / 1000, why))
    return move_values


def missing(cells: Sequence[str], size: int, mark: str) -> int:
    """The number of cells that `mark` still needs to connect its two sides of a hex board; size squared if cut off.

    This is a shortest path: own cells cost 0, empty cells 1.
    """
    end = size - 1
    starts = range(size) if mark == "x" else range(0, size * size, size)
    cost = {cell: int(cells[cell] != mark) for cell in starts if cells[cell] in (mark, ".")}
    waiting = list(cost)
    while waiting:
        cell = waiting.pop(0)
        row, column = divmod(cell, size)
        for step_row, step_column in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)):
            to_row, to_column = row + step_row, column + step_column
            if not (0 <= to_row <= end and 0 <= to_column <= end):
                continue
            to = to_row * size + to_column
            if cells[to] in (mark, ".") and cost[cell] + (cells[to] != mark) < cost.get(to, size * size):
                cost[to] = cost[cell] + (cells[to] != mark)
                waiting.append(to)
    ends = [cell for cell in cost if (cell // size if mark == "x" else cell % size) == end]
    return min((cost[cell] for cell in ends), default=size * size)


def capture_all(observation: Observation) -> list[MoveValue]:
    """Clobber: leave the opponent few moves."""
    state = position(observation.game.name, observation.variant, observation.history)
    left = [len(state.child(action).legal_actions()) for action in observation.numbers]
    return [MoveValue(-count, f"leaves {count}") for count in left]


def boxes(observation: Observation) -> list[MoveValue]:
    """Dots and boxes: close a box; otherwise draw a line that gives no box away, or as few as possible."""
    parameters = observation.game.variants[observation.variant].parameters
    rows, columns = int(parameters["num_rows"]), int(parameters["num_cols"])
    sides = sides_of_boxes(rows, columns)
    drawn = set(observation.history)

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
        return MoveValue(-lost, f"gives {lost}" if lost else "safe")

    return [move_value(line) for line in observation.numbers]


def sides_of_boxes(rows: int, columns: int) -> list[set[int]]:
    """The four lines of each box, by OpenSpiel's move numbers, which count all horizontal lines first."""
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
    counts = [int(word) for word in observation.text.split(":")[1].split()]
    heaps = [1 << bit for bit in reversed(range(max(counts).bit_length()))]
    odd = " ".join(["odd", *(str(heap) for heap in heaps if sum(count & heap > 0 for count in counts) % 2)])

    def move_value(name: str) -> MoveValue:
        pile, take = (int(part.split(":")[1]) for part in name.rstrip(";").split(", "))
        left = [count - take * (number == pile) for number, count in enumerate(counts, 1)]
        total = 0
        for count in left:
            total ^= count
        good = total == 0 if max(left) > 1 else sum(left) % 2 == 1
        return MoveValue(1, f"{odd} balance") if good else MoveValue(0, f"{odd} uneven")

    return [move_value(name) for name in observation.moves]


def stones(observation: Observation) -> list[MoveValue]:
    """Go: capture stones, keep liberties, do not fill own eyes, and pass last."""
    state = position(observation.game.name, observation.variant, observation.history)
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
    """Own stones, opponent's stones, own liberties, opponent's liberties.

    A liberty is an empty point next to a stone of the colour; each point counts once per colour.
    """
    board = [line.split(" ")[-1] for line in text.split("\n") if line.strip()[:1].isdigit()]
    other = "O" if own == "X" else "X"
    reach: dict[str, set[tuple[int, int]]] = {own: set(), other: set()}
    for row, line in enumerate(board):
        for column, stone in enumerate(line):
            for step_row, step_column in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                place = row + step_row, column + step_column
                inside = 0 <= place[0] < len(board) and 0 <= place[1] < len(line)
                if stone in reach and inside and board[place[0]][place[1]] == "+":
                    reach[stone].add(place)
    total = "".join(board)
    return total.count(own), total.count(other), len(reach[own]), len(reach[other])


_CORNERS = {(row, column) for row in (0, 7) for column in (0, 7)}


def reversi(observation: Observation) -> list[MoveValue]:
    """Othello: corners, then borders, not next to a corner; apart from that leave the opponent few moves."""
    state = position(observation.game.name, observation.variant, observation.history)

    def move_value(action: int) -> MoveValue:
        row, column = divmod(action, 8)
        left = len(state.child(action).legal_actions())
        if (row, column) in _CORNERS:
            return MoveValue(100, "corner")
        if row in (0, 1, 6, 7) and column in (0, 1, 6, 7):
            return MoveValue(-50 - left, "beside a corner")
        border = row in (0, 7) or column in (0, 7)
        return MoveValue(5 * border - left, "border" if border else "inside")

    return [move_value(action) for action in observation.numbers]
