"""What a player sees and may type: a menu of numbered moves.

The typed action is the number, from 1, in the order of OpenSpiel's own numbers: the same form in twenty games, exact
to the digit, and free of the names' brackets and blanks. `1` is always there, so it is the idle action: whatever is
missing or not legal plays the first move of the menu, and no random move is ever played in a student's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from castaway.envs.base import Message, Refusal
from castaway.envs.openspiel.games import Game
from castaway.envs.openspiel.tactics import Judgement, judge

_NUMBER = re.compile("[1-9][0-9]{0,3}")
_DIGITS = re.compile("[0-9]{1,4}")
_LONGEST_TEXT = 200
_MISSPELT = 0.8
"""How alike a name and its misspelling are at least."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one player knows when it is to move."""

    game: Game
    variant: int
    seat: int
    text: str
    """The state, as this player may see it."""
    moves: tuple[str, ...]
    """The names of the legal moves."""
    numbers: tuple[int, ...]
    """OpenSpiel's numbers of the same moves."""
    history: tuple[int, ...]
    """All moves so far, in a game with nothing to hide; empty in the others."""


def observe(game: Game, variant: int, seat: int, state: Any) -> Observation:
    """What the player in a seat, whose turn it is, knows of OpenSpiel's state."""
    numbers = tuple(state.legal_actions())
    return Observation(
        game=game,
        variant=variant,
        seat=seat,
        text=game.text(state, seat),
        moves=tuple(state.action_to_string(seat, number) for number in numbers),
        numbers=numbers,
        history=tuple(state.history()) if game.open else (),
    )


def messages(observation: Observation) -> tuple[Message, ...]:
    """What a language model is shown."""
    game = observation.game
    menu = [f"{number}: {name}" for number, name in enumerate(observation.moves, 1)]
    variant = game.variants[observation.variant].name
    told = "\n".join([game.line, observation.text, "Moves:", *menu])
    return (
        {"role": "system", "content": f"You are {game.side(observation.seat)} in {game.name}, {variant}"},
        {"role": "user", "content": told},
    )


class MenuRules:
    """The `Rules` of all games."""

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is no number of the menu, or None."""
        count = len(observation.moves)
        if not _NUMBER.fullmatch(action):
            return Refusal("form", f"Answer with the number of a move, from 1 to {count}.")
        if int(action) > count:
            return Refusal("situation", f"There is no move {action}: the menu ends with {count}.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """Every number of the menu."""
        return tuple(str(number) for number in range(1, len(observation.moves) + 1))

    def repair(self, observation: Observation, text: str) -> str:
        """The number itself, a name in the text or hardly misspelt, a number in the text, or the likest name."""
        text = text[:_LONGEST_TEXT]
        stripped = text.strip()
        if self.refusal(observation, stripped) is None:
            return stripped
        named = [name for name in observation.moves if name.casefold() in text.casefold()]
        if named:
            return self._number(observation, max(named, key=len))
        likest, likeness = max(((name, _likeness(name, text)) for name in observation.moves), key=lambda pair: pair[1])
        if likeness >= _MISSPELT:
            return self._number(observation, likest)
        numbers = [str(int(digits)) for digits in _DIGITS.findall(text)]
        legal = [number for number in numbers if self.refusal(observation, number) is None]
        return legal[0] if legal else self._number(observation, likest)

    def reason(self, observation: Observation, action: str) -> str:
        """What the move does at once, if one can tell, else its name."""
        judged, at = self._judged(observation), int(action) - 1
        name = observation.moves[at]
        if at in judged.wins:
            return f"{name} wins"
        if at in judged.safe and len(judged.safe) < len(observation.moves):
            return f"{name} is safe"
        return name

    def blunder(self, observation: Observation, action: str) -> str:
        """A win at once that is passed by, or left to the other side though another move would not leave it."""
        judged, at = self._judged(observation), int(action) - 1
        name = observation.moves[at]
        if judged.wins and at not in judged.wins:
            best = judged.wins[0]
            return f"Move {best + 1} ({observation.moves[best]}) wins at once."
        if not judged.wins and judged.safe and at not in judged.safe:
            return f"After {name} the other side has won or can win at once."
        return ""

    def _judged(self, observation: Observation) -> Judgement:
        if not observation.game.open:
            return Judgement((), ())
        return judge(observation.game.name, observation.variant, observation.history)

    def _number(self, observation: Observation, name: str) -> str:
        return str(observation.moves.index(name) + 1)


def _likeness(name: str, text: str) -> float:
    return SequenceMatcher(None, name.casefold(), text.casefold(), autojunk=False).ratio()
