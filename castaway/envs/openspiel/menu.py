"""The rules for typed actions: the number of a move in the menu, or in the full rendering its name.

Numbers start at 1 and follow the order of OpenSpiel's move numbers. So the form is the same in twenty games, which a
tiny model needs. An instruct model writes the name of the move, as a person would, and has not to count.

The idle action is `0`, which is not in the menu: a random move is made. So a policy with only invalid replies plays
exactly like a random player, whose success the base rates give. With a fixed move as the idle action, invalid replies
could be better than that.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from castaway.envs.openspiel.naming import names, typed
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.reasons import reasons
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
        """Why the text is not a move of the menu, as it is typed, or None if it is."""
        if action == BY_LOT:
            return None
        if observation.rendering == "full":
            return _no_name(action, typed(observation))
        count = len(observation.moves)
        if not _NUMBER.fullmatch(action):
            return Refusal("form", f"Answer with the number of a move, from 1 to {count}.")
        if int(action) > count:
            return Refusal("impossible", f"There is no move {action}: the menu ends with {count}.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """What may be typed, in the order of the menu, without the idle action."""
        return typed(observation)

    def repair(self, observation: Observation, text: str) -> str:
        """The move that was probably meant.

        In this order: the text is what is typed for a move; it contains the name of a move; it is almost a name; it
        contains a number of the menu; otherwise the move with the most similar name.
        """
        text, legal = text[:_LONGEST_TEXT], typed(observation)
        if text.strip() in legal:
            return text.strip()
        called = names(observation)
        named = [name for name in called if name.casefold() in text.casefold()]
        if named:
            return legal[called.index(max(named, key=len))]
        likest, likeness = max(((name, _likeness(name, text)) for name in called), key=lambda pair: pair[1])
        if likeness >= _MISSPELT:
            return legal[called.index(likest)]
        numbers = [str(int(digits)) for digits in _DIGITS.findall(text)]
        return next((number for number in numbers if number in legal), legal[called.index(likest)])

    def reason(self, observation: Observation, action: str) -> str:
        """The reason for a move, with its name."""
        return "by lot" if action == BY_LOT else reasons(observation)[typed(observation).index(action)]

    def blunder(self, observation: Observation, action: str) -> str:
        """Missing an immediate win, allowing one to the opponent although another move does not, or a random move."""
        if action == BY_LOT:
            return "The move is left to the lot."
        judged, at = judgement(observation), typed(observation).index(action)
        called = names(observation)
        if judged.wins and at not in judged.wins:
            best = judged.wins[0]
            return f"Move {best + 1} ({called[best]}) wins at once."
        if not judged.wins and judged.safe and at not in judged.safe:
            return f"After {called[at]} the other side has won or can win at once."
        return ""


def _no_name(action: str, legal: tuple[str, ...]) -> Refusal | None:
    """Why the text is not the name of a legal move; a name such as others have is a move that is not possible now."""
    if action in legal:
        return None
    if _shape(action) in {_shape(name) for name in legal}:
        return Refusal("impossible", f"{action[:40]} is not among the legal moves.")
    return Refusal("form", f"Answer with a move as it is written in the list, such as {legal[0]}.")


def _shape(name: str) -> str:
    """The name with each letter and digit replaced by a sign for its kind."""
    return re.sub("[A-Z]", "A", re.sub("[a-z]", "a", re.sub("[0-9]", "0", name)))


def _likeness(name: str, text: str) -> float:
    return SequenceMatcher(None, name.casefold(), text.casefold(), autojunk=False).ratio()
