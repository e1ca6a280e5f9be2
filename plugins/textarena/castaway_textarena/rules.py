"""The rules of a game, as far as it tells them before a move is made.

Where the moves can be listed, the listed ones are legal. Where they cannot, any text may be said, and only TextArena
says later what it was worth: there these rules refuse nothing but silence.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from castaway.tasks.environment import Refusal
from castaway_textarena.compact import bare
from castaway_textarena.observation import Observation
from castaway_textarena.search import loses_at_once

SILENCE = "(no answer)"
"""The idle action: it is no move in any game, so TextArena does what it does after an invalid move."""
LONGEST = 1000
"""Longer texts are cut, as TextArena's own wrapper for talk does."""


class TextArenaRules:
    """The rules of all games."""

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is not a legal move, or None if it is one."""
        if action == SILENCE:
            return None
        if not observation.legal:
            said = action.strip() and "\n" not in action and len(action) <= LONGEST
            return None if said else Refusal("form", f"Say something, on one line of at most {LONGEST} letters.")
        if action in observation.legal:
            return None
        listed = ", ".join(observation.legal[:10])
        sentence = f"Answer with one of these: {listed}."
        if _plain(action) in map(_plain, observation.legal):
            return Refusal("form", sentence)
        known = _plain(action).split(" ")[0] in {_plain(move).split(" ")[0] for move in observation.legal}
        return Refusal("impossible" if known or action.startswith("[") else "unknown", sentence)

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """The listed moves; empty where the game takes free text."""
        return observation.legal

    def repair(self, observation: Observation, text: str) -> str:
        """The most similar legal move; where the moves cannot be listed, the first line of the text."""
        if not observation.legal:
            line = next((line.strip() for line in text.split("\n") if line.strip()), "")
            return line[:LONGEST].strip() or SILENCE
        wanted = _plain(text)[:200]
        return max(
            observation.legal, key=lambda move: SequenceMatcher(None, _plain(move), wanted, autojunk=False).ratio()
        )

    def reason(self, observation: Any, action: str) -> str:
        """The move in words."""
        return " ".join(bare(action).split()).lower() or "nothing to say"

    def blunder(self, observation: Observation, action: str) -> str:
        """Whether the move loses at once: found by a look ahead, in games that hide nothing."""
        if action == SILENCE:
            return "To say nothing is an invalid move."
        return "This move loses the game at once." if loses_at_once(observation, action) else ""


def _plain(text: str) -> str:
    return " ".join(bare(text).lower().split())
