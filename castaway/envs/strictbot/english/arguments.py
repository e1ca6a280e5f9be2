"""Common beliefs, conclusions, and questions that answer themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.english.phrasing import capital, framed, mended, pick, sentence
from castaway.envs.strictbot.english.rows import fields, fillings, lines, read
from castaway.envs.strictbot.question import Kind, Question

BELIEFS = ("nature", "people", "everyday")
"""The files of beliefs, in the folder `bank/english/beliefs`."""
ARGUMENTS = ("forms", "everyday")
"""The files of conclusions, in the folder `bank/english/logic`."""
CAREFUL = ("alone", "possible")
"""The lists of frames for careful conclusions."""
WORDINGS = 3
"""Number of ways in which a belief, a conclusion and a question that answers itself are put."""

Frames = Mapping[str, list[str]]
"""Form to the frames of its questions."""


# Beliefs -------------------------------------------------------------------------------------------------------------


def beliefs(frames: Frames) -> Iterator[Question]:
    """Common misconceptions, and questions about the same that have it right."""
    for file in BELIEFS:
        for family, found in read(f"beliefs/{file}").items():
            for so, believed in _cases(found):
                yield from _belief(family, so, believed, frames["belief"])


def _cases(found: Any) -> list[tuple[list[str], list[str]]]:
    """What is so and what is believed, each as clauses with the same meaning.

    A family is a block of such lines, or templates with fillers.
    """
    if isinstance(found, str):
        return [fields(line) for line in lines(found)]
    return [
        ([one.format(*row) for one in found["so"]], [one.format(*row) for one in found["believed"]])
        for row in fillings(found["fill"])
    ]


def _belief(family: str, so: Sequence[str], believed: Sequence[str], frames: Sequence[str]) -> Iterator[Question]:
    fact, false = sentence(so[0]), sentence(believed[0])
    both: tuple[tuple[Kind, Sequence[str]], ...] = (("misconception", believed), ("good question", so))
    for kind, clauses in both:
        for number in range(WORDINGS):
            key = f"{family} {so[0]} {kind} {number}"
            clause = pick(clauses, f"{family} {so[0]} {kind}", number)
            asked = framed(pick(frames, f"{family} {so[0]} {kind}", 5 * number), clause, key)
            yield Question(asked, fact, false, kind, "belief", family, so[0], number, mended(clause))


def details(frames: Frames) -> Iterator[Question]:
    """Beliefs that are never told in the words of the fact, which gives a detail or a reason instead."""

    def ask(clause: str, key: str) -> tuple[str, str]:
        return framed(pick(frames["belief"], key), clause, key), clause

    for family, block in read("beliefs/details").items():
        for so, believed in map(fields, lines(block)):
            yield from _about(family, so, believed, ask)


def assumptions() -> Iterator[Question]:
    """Questions that take a misconception for granted, and questions that take for granted what is so."""
    for family, block in read("beliefs/assumed").items():
        for so, believed in map(fields, lines(block)):
            yield from _about(family, so, believed, _assuming)


def _assuming(text: str, key: str) -> tuple[str, str]:
    """A question, and what it takes for granted, which stands in brackets behind it."""
    asked, _, claim = text.rstrip("]").partition(" [")
    return framed("{Q}", asked, key), claim


def _about(
    family: str, so: Sequence[str], believed: Sequence[str], ask: Callable[[str, str], tuple[str, str]]
) -> Iterator[Question]:
    """A question for each text after the first of both lists; the first are the fact and the false statement."""
    fact, false = sentence(so[0]), sentence(believed[0])
    both: tuple[tuple[Kind, Sequence[str]], ...] = (("misconception", believed[1:]), ("good question", so[1:]))
    for kind, texts in both:
        for number, text in enumerate(texts):
            asked, claim = ask(text, f"{family} {so[0]} {kind} {number}")
            yield Question(asked, fact, false, kind, "belief", family, so[0], number, mended(claim))


# Conclusions ---------------------------------------------------------------------------------------------------------


def conclusions(frames: Frames) -> Iterator[Question]:
    """Conclusions that do not follow, conclusions that do, and both drawn with the wrong certainty.

    Who is careful where nothing follows is right; who is careful where something follows is not. So neither the words
    of the conclusion nor those of the fact tell the kind alone.
    """
    families = chain(*(read(f"logic/{file}").items() for file in ARGUMENTS))
    for family, topic in families:
        bold = frames["conclusion"]
        careful = [frame for name in topic.get("careful", CAREFUL) for frame in frames[name]]
        for row in fillings(topic["fill"]):
            subject = " ; ".join(row)
            weak = _Argument(topic, row, family, subject)
            yield from weak.asked(bold, weak.then, "poor logic", WORDINGS)
            yield from weak.asked(careful, weak.then[:1], "good question", 1 if careful else 0, doubtful=True)
            if "sound" in topic:
                sound = _Argument(topic["sound"], row, family, subject)
                yield from sound.asked(bold, sound.then, "good question", WORDINGS)
                yield from sound.asked(careful, sound.then[:1], "poor logic", drawn(subject, 2), doubtful=True)


class _Argument:
    """Premises, conclusions that are drawn from them, and the fact that decides whether they follow."""

    def __init__(self, topic: Mapping[str, Any], row: Sequence[str], family: str, subject: str) -> None:
        self.given = capital(topic["given"].format(*row))
        self.then = [one.format(*row) for one in topic["then"]]
        self._fact, self._false = (sentence(topic[name].format(*row)) for name in ("fact", "otherwise"))
        self._family, self._subject = family, subject

    def asked(
        self, frames: Sequence[str], then: Sequence[str], kind: Kind, count: int, doubtful: bool = False
    ) -> Iterator[Question]:
        """Questions in `count` ways whether one of the conclusions follows."""
        fact, false, family, subject = self._fact, self._false, self._family, self._subject
        for number in range(count):
            key = f"{family} {subject} {fact} {kind} {then[0]} {number}"
            frame, claim = pick(frames, key, number).replace("{P}", self.given), pick(then, key)
            asked = framed(frame, claim, key)
            yield Question(asked, fact, false, kind, "conclusion", family, subject, number, mended(claim), doubtful)


# Questions that answer themselves ------------------------------------------------------------------------------------


def trivial(frames: Frames) -> Iterator[Question]:
    """Questions that contain their own answer."""
    for family, topic in read("trivial").items():
        rows, place = fillings(topic["fill"]), topic["value"]
        values = sorted({row[place] for row in rows})
        for row in rows:
            subject = " ; ".join(row)
            other = pick([one for one in values if one != row[place]], subject)
            wrong = [other if number == place else field for number, field in enumerate(row)]
            # Only the last place of the fact takes the wrong value, as in `a red hat is blue`.
            head, _, tail = topic["fact"].rpartition(f"{{{place}}}")
            fact = sentence(topic["fact"].format(*row))
            false = sentence(head.format(*row) + wrong[place] + tail.format(*row))
            for number in range(WORDINGS):
                key = f"{family} {subject} {number}"
                asked = pick(topic["asks"], key, number).format(*row)
                framed_question = framed(pick(frames["open"], key, number), asked, key)
                yield Question(framed_question, fact, false, "trivial", "open", family, subject, number)
