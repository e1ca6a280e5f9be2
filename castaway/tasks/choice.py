"""Ready-made `Rules` for a simple game, whose legal actions in a situation can be listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

from castaway.tasks.environment import Refusal


class ChoiceRules:
    """`Rules` from a list: an action is legal if it is in the list, or if it is the idle action."""

    def __init__(
        self,
        legal: Callable[[Any], Sequence[str]],
        idle: str,
        reason: Callable[[Any, str], str] = lambda observation, action: action.lower(),
        blunder: Callable[[Any, str], str] = lambda observation, action: "",
    ) -> None:
        """Make the rules of a game.

        Args:
            legal: returns the legal actions for an observation, without the idle one; never empty.
            idle: the action that is always legal and does nothing.
            reason: returns what a player may give as its reason for an action, on one line.
            blunder: returns one sentence on why a legal action is a mistake, or an empty text.
        """
        self._legal, self._idle, self.reason, self.blunder = legal, idle, reason, blunder

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        """Why the text is not a legal action, or None if it is one."""
        legal = self._legal(observation)
        if action == self._idle or action in legal:
            return None
        # With a first word from the list the reply shows that the form is understood: "impossible", not "unknown".
        known = action.split(" ", 1)[0] in {one.split(" ", 1)[0] for one in legal}
        listed = ", ".join(legal[:10])
        return Refusal("impossible" if known else "unknown", f"Answer with one of these: {listed}.")

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        """The listed actions."""
        return tuple(self._legal(observation))

    def repair(self, observation: Any, text: str) -> str:
        """The listed action most similar to the text; the first one if several are equally similar."""
        return max(self._legal(observation), key=lambda one: SequenceMatcher(None, one, text[:200], False).ratio())
