"""The questions of the full rendering, made from the files in the folder `bank/english`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import chain

from castaway.envs.strictbot.bank import Bank, drawn, share_of_subject
from castaway.envs.strictbot.english.arguments import assumptions, beliefs, conclusions, details, trivial
from castaway.envs.strictbot.english.explained import explained
from castaway.envs.strictbot.english.rows import read
from castaway.envs.strictbot.english.topics import Asker, topics
from castaway.envs.strictbot.question import Question


@cache
def bank() -> Bank:
    """The whole bank. Where two questions have the same text, only the first is in it."""
    frames = read("frames")
    families = {share: frozenset(found) for share, found in read("split").items()}
    share_of = partial(share_of_subject, reserved=families)
    asker = Asker(frames, share_of)
    found: dict[str, Question] = {}
    for family, topic in topics().items():
        for question in asker.questions(family, topic):
            found.setdefault(question.asked, question)
    rest = (
        *(beliefs(frames), details(frames), assumptions()),
        *(conclusions(frames), trivial(frames), explained(frames, share_of)),
    )
    for question in chain(*rest):
        found.setdefault(question.asked, question)
    plain = Bank(tuple(found.values()), families)
    return replace(plain, questions=tuple(one.opposed() if _opposed(plain, one) else one for one in plain.questions))


def _opposed(plain: Bank, question: Question) -> bool:
    """Whether the false statement is taken as the fact: in half of the claims and beliefs that training uses."""
    compares = question.form in ("check", "belief") and plain.share_of(question) == "train"
    return compares and drawn(f"{question.asked} opposed", 2) == 0
