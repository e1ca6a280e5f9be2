"""The rules of a game whose legal actions can be listed: what a simple game needs, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

from castaway.tasks.environment import Refusal


class ChoiceRules:
    """`Rules` made of a list: legal is what is listed, and the idle action."""

    def __init__(
        self,
        legal: Callable[[Any], Sequence[str]],
        idle: str,
        reason: Callable[[Any, str], str] = lambda observation, action: action.lower(),
        blunder: Callable[[Any, str], str] = lambda observation, action: "",
    ) -> None:
        """Rules of a game.

        Args:
            legal: the legal actions of an observation, as typed, without the idle one; never empty.
            idle: the action that is always legal and does nothing.
            reason: what a player may give as its reason for an action, on one line.
            blunder: one sentence on why a legal action is a mistake, or nothing.
        """
        self._legal, self._idle, self.reason, self.blunder = legal, idle, reason, blunder

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        """Why the text is not listed, or None if it is."""
        legal = self._legal(observation)
        if action == self._idle or action in legal:
            return None
        known = action.split(" ", 1)[0] in {one.split(" ", 1)[0] for one in legal}
        listed = ", ".join(legal[:10])
        return Refusal("impossible" if known else "unknown", f"Answer with one of these: {listed}.")

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        """What is listed."""
        return tuple(self._legal(observation))

    def repair(self, observation: Any, text: str) -> str:
        """The listed action that is most like the text; of equal ones the first."""
        return max(self._legal(observation), key=lambda one: SequenceMatcher(None, one, text[:200], False).ratio())
