"""The rules for typed actions: the number of a move in a menu.

The numbers start at 1 and follow the order of OpenSpiel's move numbers. So the form is the same in twenty games and
does not depend on names with brackets or spaces.

The idle action is `0`, which is not in the menu: a random move is made. So a policy with only invalid replies plays
exactly like a random player, whose success the base rates give. With a fixed move as the idle action, invalid replies
could be better than that.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from castaway.envs.openspiel.compact import names
from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.tactics import judgement
from castaway.tasks.environment import Refusal

BY_LOT = "0"
"""The idle action: a random move of the menu, all with the same probability."""
_NUMBER = re.compile("[1-9][0-9]{0,3}")
_DIGITS = re.compile("[0-9]{1,4}")
_LONGEST_TEXT = 200
"""Number of characters of a reply that `repair` looks at."""
_MISSPELT = 0.8
"""Smallest similarity, 0 to 1, at which a text counts as a misspelt name."""


class MenuRules:
    """The `Rules` of all twenty games."""

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is not a number of the menu, or None if it is."""
        count = len(observation.moves)
        if action == BY_LOT:
            return None
        if not _NUMBER.fullmatch(action):
            return Refusal("form", f"Answer with the number of a move, from 1 to {count}.")
        if int(action) > count:
            return Refusal("impossible", f"There is no move {action}: the menu ends with {count}.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """Every number of the menu, without the idle action."""
        return tuple(str(number) for number in range(1, len(observation.moves) + 1))

    def repair(self, observation: Observation, text: str) -> str:
        """The move that was probably meant.

        In this order: the text is a number; it contains the name of a move; it is almost a name; it contains a number
        of the menu; otherwise the move with the most similar name.
        """
        text = text[:_LONGEST_TEXT]
        if text.strip() in self.legal_actions(observation):
            return text.strip()
        named = [name for name in names(observation) if name.casefold() in text.casefold()]
        if named:
            return self._number(observation, max(named, key=len))
        likest, likeness = max(((name, _likeness(name, text)) for name in names(observation)), key=lambda pair: pair[1])
        if likeness >= _MISSPELT:
            return self._number(observation, likest)
        numbers = [str(int(digits)) for digits in _DIGITS.findall(text)]
        legal = [number for number in numbers if number in self.legal_actions(observation)]
        return legal[0] if legal else self._number(observation, likest)

    def reason(self, observation: Observation, action: str) -> str:
        """The reason for a move in a word or two, then its name."""
        if action == BY_LOT:
            return "by lot"
        at = int(action) - 1
        return f"{move_values(observation)[at].why} {names(observation)[at]}"

    def blunder(self, observation: Observation, action: str) -> str:
        """Missing an immediate win, allowing one to the opponent although another move does not, or a random move."""
        if action == BY_LOT:
            return "The move is left to the lot."
        judged, at = judgement(observation), int(action) - 1
        called = names(observation)
        if judged.wins and at not in judged.wins:
            best = judged.wins[0]
            return f"Move {best + 1} ({called[best]}) wins at once."
        if not judged.wins and judged.safe and at not in judged.safe:
            return f"After {called[at]} the other side has won or can win at once."
        return ""

    def _number(self, observation: Observation, name: str) -> str:
        return str(names(observation).index(name) + 1)


def _likeness(name: str, text: str) -> float:
    return SequenceMatcher(None, name.casefold(), text.casefold(), autojunk=False).ratio()
