"""The legal moves of a game, where it knows them.

TextArena has no list of moves: a game says what it thinks of a text when it has got it. So the texts that may be moves
are tried, each on a copy of the game, and those that TextArena does not call invalid are legal. Which texts those are,
`FORMS` tells for each game, as patterns: `[{Hit|Stand}]` stands for two texts, `[{0-2} {1-5}]` for fifteen. Where any
number or any words are moves, the patterns name a few of them, and the others are not offered. A game without patterns
takes free text, and nobody can list its moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, permutations, product
from typing import Any

from castaway_textarena.catalogue import family
from castaway_textarena.game import Game

_CARDS = "A|2|3|4|5|6|7|8|9|10|J|Q|K"
_STEPS = "[{up|down|left|right}]"
_GOODS = "Wheat|Wood|Sheep|Brick|Ore"


def expanded(pattern: str) -> Iterator[str]:
    """All texts that a pattern stands for: `{a|b}` is one of the words, `{0-9}` one of the numbers."""
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [_words(part) if number % 2 else [part] for number, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*choices))


def _words(inside: str) -> list[str]:
    if numbers := re.fullmatch(r"(\d+)-(\d+)", inside):
        return [str(number) for number in range(int(numbers[1]), int(numbers[2]) + 1)]
    return inside.split("|")


def _square(env: Any, attribute: str, pattern: str) -> list[str]:
    """A pattern with `#` for the last row or column of a board."""
    return [pattern.replace("#", str(getattr(env, attribute) - 1))]


def _leaps(size: int, between: str, fits: Callable[[int, int], bool]) -> list[str]:
    """Moves from a square to another one, where the distances in columns and in rows fit together."""
    squares = [(column, row) for column in range(size) for row in range(size)]
    pairs = [(one, other) for one, other in product(squares, squares) if fits(other[0] - one[0], other[1] - one[1])]
    return [f"[{_named(one)}{between}{_named(other)}]" for one, other in pairs]


def _named(square: tuple[int, int]) -> str:
    return f"{'abcdefghijklmnopqrst'[square[0]]}{square[1] + 1}"


def _sudoku(env: Any) -> list[str]:
    grid = env.state.game_state["board"]
    empty = [(row, column) for row in range(9) for column in range(9) if not grid[row][column]]
    return [f"[{row + 1} {column + 1} {digit}]" for row, column in empty for digit in range(1, 10)]


def _codes(env: Any) -> list[str]:
    digits = range(1, env.num_numbers + 1)
    return [f"[{' '.join(map(str, code))}]" for code in permutations(digits, env.code_length)][:400]


def _memory(env: Any) -> list[str]:
    cells = list(product(range(env.grid_size), repeat=2))
    return [f"[{a} {b} {c} {d}]" for (a, b), (c, d) in combinations(cells, 2)]


def _armies(env: Any) -> list[str]:
    fields, units = "ABCDEFG"[: env.num_fields], env.num_total_units
    shares = [share for share in product(range(0, units + 1, max(1, units // 10)), repeat=len(fields) - 1)]
    found = [(*share, units - sum(share)) for share in shares if sum(share) <= units]
    return [f"[{' '.join(f'{name}{count}' for name, count in zip(fields, one, strict=True))}]" for one in found][:200]


Patterns = list[str] | Callable[[Any], list[str]]
FORMS: dict[str, Patterns] = {
    "2048": ["[{Up|Down|Left|Right}]"],
    "Alquerque": _leaps(5, " ", lambda across, up: {abs(across), abs(up)} in ({0, 1}, {1}, {0, 2}, {2})),
    "Bandit": lambda env: [f"[{button}]" for button in env.buttons],
    "Battleship": lambda env: [f"[{{{'|'.join('ABCDEFGHIJKLMNOPQRST'[: env.grid_size])}}}{{0-{env.grid_size - 1}}}]"],
    "Blackjack": ["[{Hit|Stand}]"],
    "Breakthrough": lambda env: _leaps(env.board_size, "", lambda across, up: abs(across) <= 1 and abs(up) == 1),
    "Briscola": ["[play {1-3}]"],
    "Chopsticks": ["[attack {0|1} {0|1}]", "[split {0-4} {0-4}]"],
    "ColonelBlotto": _armies,
    "ConnectFour": lambda env: _square(env, "num_cols", "[col {0-#}]"),
    "Countdown": ["[{0-5} {0-5} {+|-|*|/}]"],
    "Crusade": _leaps(8, " ", lambda across, up: abs(across * up) == 2),
    "Cryptarithm": lambda env: [f"[{{{'|'.join(sorted(set(env.equation_raw) - set('+=')))}}} {{0-9}}]"],
    "FifteenPuzzle": [_STEPS],
    "FrozenLake": [_STEPS],
    "GameOfPureStrategy": [f"[{{{_CARDS}}}]"],
    "GermanWhist": ["[play {1-13}]"],
    "Golf": ["[{draw|take|discard|knock}]", "[{swap|peek} {1-3} {1-3}]"],
    "GuessTheNumber": lambda env: [f"[{{{env.min_number}-{env.max_number}}}]"],
    "HighSociety": ["[{1-11}]"],
    "IndianPoker": ["[{check|fold|call}]", "[{bet|raise} {1|2|5|10}]"],
    "IteratedMatchingPennies": ["[{heads|tails}]"],
    "IteratedPrisonersDilemma": ["[{Cooperate|Defect}]"],
    "IteratedRockPaperScissors": ["[{rock|paper|scissors}]"],
    "IteratedStagHunt": ["[{Stag|Hare}]"],
    "IteratedTwoThirdsAverage": ["[{0|5|10|15|20|25|30|35|40|45|50|60|70|80|90|100}]"],
    "IteratedUltimatumGame": ["[Offer: ${0|5|10|15|20|25|30|40|50}]", "[{Accept|Reject}]"],
    "KuhnPoker": ["[{check|bet|call|fold}]"],
    "LiarsDice": ["[Call]", "[Bid: {1-10}, {1-6}]"],
    "LightsOut": lambda env: _square(env, "size", "[{0-#} {0-#}]"),
    "MarketEntryGame": ["[{E|S}]"],
    "Mastermind": _codes,
    "MemoryGame": _memory,
    "Minesweeper": lambda env: [f"[{{0-{env.rows - 1}}} {{0-{env.cols - 1}}}]"],
    "Nim": lambda env: [f"[{{0-{len(env.initial_piles) - 1}}} {{1-{max(env.initial_piles)}}}]"],
    "Othello": lambda env: _square(env, "N", "[{0-#}, {0-#}]"),
    "PegJump": ["[{1-15} {1-15}]"],
    "PigDice": ["[{roll|hold}]"],
    "Poker": ["[{Check|Call|Fold}]", "[{Bet|Raise} {20|50|100}]"],
    "PublicGoodsGame": ["[{0|5|10|15|20}]"],
    "QuantumTicTacToe": [f"[{one},{other}]" for one, other in combinations(range(9), 2)],
    "ReverseTicTacToe": ["[{0-8}]"],
    "RushHour": ["[{A|B|C|D|E|F|G|H|I|J|K|L|X}{+|-}]"],
    "Secretary": ["[{accept|continue}]"],
    "SimpleNegotiation": [f"[Offer: {{1|3}} {{{_GOODS}}} -> {{1|3}} {{{_GOODS}}}]", "[{Accept|Deny}]"],
    "SimpleTak": lambda env: [f"[{{0-{env.board_size**2 - 1}}}]"],
    "Slitherlink": ["[{h|v} {0-4} {0-4}]"],
    "Snake": [_STEPS],
    "Sokoban": [_STEPS],
    "Sudoku": _sudoku,
    "Surround": [_STEPS],
    "ThreeCardMonte": ["[{0-2}]"],
    "ThreePlayerGOPS": [f"[{{{_CARDS}}}]"],
    "ThreePlayerTicTacToe": ["[{0-24}]"],
    "TicTacToe": ["[{0-8}]"],
    "TowerOfHanoi": ["[{A|B|C} {A|B|C}]"],
    "TwoDollar": ["[Propose] ${0.50|0.75|1.00|1.25|1.50}", "[{Accept|Reject}]"],
    "UltimateTicTacToe": ["[{0-8} {0-8}]"],
    "WildTicTacToe": ["[{X|O} {0-8}]"],
}
"""Game to the patterns of its moves, or to a function of TextArena's environment that makes them."""


def is_listed(game: str) -> bool:
    """Whether the moves of a game can be listed."""
    return family(game) in FORMS


def candidates(game: Game) -> list[str]:
    """The texts that may be moves, in a fixed order."""
    patterns = FORMS[family(game.name)]
    found = patterns(game.env) if callable(patterns) else patterns
    return list(dict.fromkeys(text for pattern in found for text in expanded(pattern)))


def legal_moves(game: Game) -> tuple[str, ...]:
    """The legal moves of the player that is to move, each tried on a copy; empty where moves cannot be listed."""
    if game.done or not is_listed(game.name):
        return ()
    return game.accepted(candidates(game))
