"""What a player knows when it is to move, and how that is written as chat messages.

- `full`, for instruct models: TextArena's own rules of the game and its examples in the system message; then what it
  shows in its version for training, which are the messages of the game and the newest board, and the legal moves;
- `compact`, for small models: without rules, one word for each fact (`castaway_textarena.compact`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from castaway.tasks.environment import Message
from castaway_textarena.compact import situation
from castaway_textarena.game import Shown

Rendering = Literal["full", "compact"]

_HIDDEN = ("PROMPT", "GAME_BOARD", "PLAYER_ACTION", "GAME_ADMIN")
_HOW = "Answer in two lines: a short reason, and what you say in the game, with your move in brackets. For example:"


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


def messages(seen: Observation) -> tuple[Message, ...]:
    """The chat messages for an observation, in its rendering."""
    if seen.rendering == "compact":
        system = f"{seen.game} {seen.player}"
        user = situation(seen)
    else:
        example = seen.legal[0] if seen.legal else "[a move]"
        system = f"{seen.prompt.strip()}\n\n{_HOW}\nREASONING: it is my best move\nACTION: {example}"
        said = [f"Player {sender}: {text}" for sender, text in seen.talk[-6:]]
        parts = ["\n".join([*seen.messages, *said]), seen.board, seen.complaint, _listed(seen.legal)]
        user = "\n\n".join(part.strip("\n") for part in parts if part.strip()) or "It is your turn."
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


def _listed(legal: tuple[str, ...]) -> str:
    """The legal moves on one line; a long list would fill the prompt, and the rules say what moves are."""
    return f"Legal moves: {' '.join(legal)}" if 0 < len(legal) <= 40 else ""
