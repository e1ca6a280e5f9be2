"""What is known about the games of TextArena 0.7.4 without playing them; a game's name here is that before `-v0`."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from castaway.config.errors import CastawayError

VERSION = "0.7.4"
"""The version of TextArena that this package is written for."""

_WORD_LIST = "it downloads a word list when it starts, and plays here are offline"
_JURY = "it asks a language model on the internet, and plays here are offline"
_NO_FILES = "its files are missing in the wheel of TextArena 0.7.4"
REFUSED = {
    **dict.fromkeys(
        (
            "Codenames",
            "DontSayIt",
            "Hangman",
            "LetterAuction",
            "SpellingBee",
            "WordChains",
            "WordLadder",
            "WordSearch",
            "Wordle",
        ),
        _WORD_LIST,
    ),
    **dict.fromkeys(("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions"), _JURY),
    **dict.fromkeys(("ScorableGames", "UsedCar", "UsedCarNegotiation"), _NO_FILES),
    "BabyAiText": "it needs a simulator that TextArena does not install",
}
"""Games that cannot be played here, and why."""

PLAYERS = {
    "CharacterConclave": 3,
    "MarketEntryGame": 4,
    "PublicGoodsGame": 3,
    "SecretMafia": 6,
    "SettlersOfCatan": 4,
    "Taboo": 4,
    "ThreePlayerGOPS": 3,
    "ThreePlayerIPD": 3,
    "ThreePlayerTicTacToe": 3,
}
"""Number of players of games for three and more; one that can be played by more has its usual number."""
SINGLE = frozenset(
    re.findall(
        r"\w+",
        """
        2048 Bandit Blackjack Countdown Crosswords Cryptarithm FifteenPuzzle FrozenLake GuessTheNumber Klondike
        LightsOut LogicPuzzle Mastermind Minesweeper PegJump RushHour Secretary Set Slitherlink Sokoban Sudoku
        ThreeCardMonte TowerOfHanoi UltimateTexasHoldem
    """,
    )
)
"""Games for one player. All others are for two."""
OPEN = frozenset(
    re.findall(
        r"\w+",
        """
        Alquerque Breakthrough Checkers Chess Chopsticks ConnectFour Countdown Crusade Cryptarithm FifteenPuzzle
        FrozenLake LightsOut LinesOfAction Nim Othello PegJump ReverseTicTacToe RushHour SantoriniBaseFixed SimpleTak
        Slitherlink Sokoban Sudoku Tak ThreePlayerTicTacToe TicTacToe TowerOfHanoi UltimateTicTacToe WildTicTacToe
    """,
    )
)
"""Games without chance and without secrets: their players may search on a copy of the game."""


def family(game: str) -> str:
    """The name of a game without version and variant: `FrozenLake` of `FrozenLake-v0-random`."""
    return game.partition("-v")[0]


def players_of(game: str) -> int:
    """How many play a game."""
    return 1 if family(game) in SINGLE else PLAYERS.get(family(game), 2)


def is_open(game: str) -> bool:
    """Whether the players of a game see all of it, so that a search on a copy tells them nothing new."""
    return family(game) in OPEN and not game.endswith("-blind")


@cache
def textarena() -> Any:
    """The module `textarena`.

    Raises:
        CastawayError: it is not installed, in another version, or one of its packages does not fit.
    """
    try:
        found = version("textarena")
    except PackageNotFoundError:
        found = "none"
    if found != VERSION:
        raise CastawayError(
            f"TextArena {VERSION} is needed and {found} is installed; run pip install textarena=={VERSION}"
        )
    try:
        import textarena as module
    except Exception as error:
        raise CastawayError(
            f"TextArena {VERSION} cannot be imported beside the installed packages: {type(error).__name__}: {error}; "
            "give it an environment of its own"
        ) from None
    return module


def games() -> list[str]:
    """The names of all games, without the versions that differ in how they are shown (`-train`, `-raw`), sorted."""
    textarena()
    from textarena.envs.registration import ENV_REGISTRY

    return sorted(name for name in ENV_REGISTRY if not name.endswith(("-train", "-raw")))


def check(game: str) -> None:
    """Refuse a game that does not exist or cannot be played here.

    Raises:
        CastawayError: in one sentence.
    """
    if reason := REFUSED.get(family(game)):
        raise CastawayError(f"the game {game} cannot be played: {reason}")
    if game not in games():
        raise CastawayError(
            f"TextArena {VERSION} has no game {game!r}; `python -m castaway_textarena names` lists them"
        )
