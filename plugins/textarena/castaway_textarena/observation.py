"""What a player knows when it is to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from castaway_textarena.game import Shown

Rendering = Literal["full", "compact"]

_HIDDEN = ("PROMPT", "GAME_BOARD", "PLAYER_ACTION", "GAME_ADMIN")


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one player knows when it is to move."""

    game: str
    """TextArena's name of the game, such as `TicTacToe-v0`."""
    player: int
    """Its number in TextArena, from 0."""
    shown: tuple[Shown, ...]
    """All that TextArena has shown it."""
    legal: tuple[str, ...]
    """The legal moves; empty where they cannot be listed."""
    played: tuple[int, int, tuple[str, ...]] | None
    """In open games: the seed of the game, the number of players and all that was said in it, from which a copy can be
    made. None where that would tell secrets."""
    rendering: Rendering = "full"

    @property
    def prompt(self) -> str:
        """TextArena's rules of the game for this player."""
        return next((text for _, text, kind in self.shown if kind == "PROMPT"), self.game)

    @property
    def board(self) -> str:
        """The newest board; empty in games without one."""
        return next((text for _, text, kind in reversed(self.shown) if kind == "GAME_BOARD"), "")

    @property
    def messages(self) -> list[str]:
        """What the game has told since the start, without boards."""
        return [text for _, text, kind in self.shown if kind not in _HIDDEN]

    @property
    def talk(self) -> list[tuple[int, str]]:
        """What the other players have said, and who: in TextArena players talk in their moves."""
        return [
            (sender, text)
            for sender, text, kind in self.shown
            if kind == "PLAYER_ACTION" and sender not in (-1, self.player)
        ]

    @property
    def complaint(self) -> str:
        """What the game said of the player's last move, if it was invalid."""
        for sender, text, kind in reversed(self.shown):
            if kind == "GAME_ADMIN":
                return text
            if kind == "PLAYER_ACTION" and sender == self.player:
                break
        return ""
