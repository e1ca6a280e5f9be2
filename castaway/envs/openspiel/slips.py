"""Format errors of instruct models that should reply with a number of a menu."""

from __future__ import annotations

from castaway.tasks.reply import Reply
from castaway.tasks.slips import labelled, markdown, one_of, reason_only, unlabelled


def _by_name(reply: Reply) -> str:
    return labelled(reply.reasoning, reply.reasoning.split(" ")[-1])


def _in_words(reply: Reply) -> str:
    return labelled(reply.reasoning, f"move {reply.action}")


def _full_stop(reply: Reply) -> str:
    return labelled(reply.reasoning, f"{reply.action}.")


slip = one_of([_by_name, _in_words, _full_stop, markdown, unlabelled, reason_only])
