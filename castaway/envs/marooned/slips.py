"""Format errors of instruct models in MAROONED, as observed in their replies."""

from __future__ import annotations

from castaway.tasks.reply import Reply
from castaway.tasks.slips import labelled, markdown, one_of, reason_only, unlabelled

_WORDS = {"MOVE": "MOVING", "GATHER": "COLLECT", "WAIT": "CHECK_STATUS", "DEPOSIT": "STORE", "BUILD": "REPAIR"}


def _verb(reply: Reply) -> str:
    verb, _, rest = reply.action.partition(" ")
    return labelled(reply.reasoning, f"{_WORDS.get(verb, 'LOOK')} {rest}").rstrip()


def _lower(reply: Reply) -> str:
    return labelled(reply.reasoning, reply.action.lower())


def _squeezed(reply: Reply) -> str:
    return labelled(reply.reasoning, reply.action.replace(" ", ""))


slip = one_of([_verb, _lower, _squeezed, markdown, unlabelled, reason_only])
