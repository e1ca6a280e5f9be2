"""The typed actions: exactly what a sailor may write after `ACTION:`.

An action has only one spelling: `parse_action(str(action)) == action` for every action, and a text that differs from it
in a single character is not an action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DIRECTIONS: dict[str, tuple[int, int]] = {"NORTH": (0, -1), "SOUTH": (0, 1), "EAST": (1, 0), "WEST": (-1, 0)}
"""Direction to its step in (x, y), in tiles; y grows south."""

FORMS: dict[str, tuple[str, ...]] = {
    "MOVE": ("direction",),
    "CLIMB": ("slope",),
    "GATHER": ("pile",),
    "DEPOSIT": ("resource", "amount"),
    "TAKE": ("resource", "amount"),
    "DROP": ("resource", "amount"),
    "GIVE": ("name", "resource", "amount"),
    "EAT": ("resource",),
    "BUILD": ("component",),
    "SAY": ("text",),
    "TELL": ("name", "text"),
    "ACCUSE": ("name",),
    "CALL_VOTE": ("name",),
    "VOTE": ("name",),
    "SHOW_BACKPACK": (),
    "REFUSE_SHOW": (),
    "USE_ANTIDOTE": ("name",),
    "CALL_SOS": (),
    "WAIT": (),
    "SABOTAGE": ("component",),
    "POISON": ("name",),
    "FRAME": ("name",),
}
"""Verb to the kinds of its arguments, in the order in which they are written."""

TRAITOR_VERBS = frozenset({"SABOTAGE", "POISON", "FRAME"})
"""Verbs of the traitor only."""
WORK_VERBS = frozenset({"MOVE", "CLIMB", "GATHER", "SABOTAGE", "POISON"})
"""Verbs for phases with work only."""
VOTE_VERBS = frozenset({"ACCUSE", "CALL_VOTE", "VOTE", "SHOW_BACKPACK", "REFUSE_SHOW"})
"""Verbs for phases with votes only."""

_WORDS = {
    "direction": "NORTH|SOUTH|EAST|WEST",
    "slope": "UP|DOWN",
    "pile": "[A-Z][A-Z_]*_[0-9]{1,6}",
    "resource": "[a-z][a-z_]*",
    "amount": "[1-9][0-9]{0,5}",
    "name": "[A-Z][A-Za-z]*",
    "component": "[a-z][a-z_]*",
    "text": r"\S(?:[^\r\n]*\S)?",
}
_PATTERNS = {
    verb: re.compile(" ".join([verb, *(f"({_WORDS[kind]})" for kind in kinds)])) for verb, kinds in FORMS.items()
}


@dataclass(frozen=True, slots=True)
class Action:
    """A verb and its arguments, as written."""

    verb: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The spelling of the action."""
        return " ".join((self.verb, *self.arguments))

    @property
    def amount(self) -> int:
        """The quantity, for verbs whose last argument is one; at least 1, since no other text is parsed."""
        return int(self.arguments[-1])


WAIT = Action("WAIT")


def form(verb: str) -> str:
    """The form of an action for people and models: `GIVE <name> <resource> <amount>`."""
    return " ".join([verb, *(f"<{kind}>" for kind in FORMS[verb])])


def parse_action(text: str) -> Action | None:
    """The action that `text` spells exactly, or None. Correcting the text is left to the teacher."""
    verb = text.split(" ", 1)[0]
    pattern = _PATTERNS.get(verb)
    match = pattern.fullmatch(text) if pattern else None
    return Action(verb, match.groups()) if match else None
