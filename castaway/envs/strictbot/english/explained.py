"""Questions why and how, whose answer is an explanation, and the same after it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from castaway.envs.strictbot.bank import Share, drawn
from castaway.envs.strictbot.english.phrasing import framed, framed_after, pick, sentence
from castaway.envs.strictbot.english.rows import fields, lines, read
from castaway.envs.strictbot.question import Question

WORDINGS = 4
"""Number of ways in which each is asked."""
TOLD = 2
"""For one of so many subjects there is a question that holds its own answer."""


def explained(frames: Mapping[str, list[str]], share_of: Callable[[str, str], Share]) -> Iterator[Question]:
    """Questions for an explanation; some stand after another one of the same share, or after their own.

    Args:
        frames: form to the frames of its questions; `context` are those of what stands before a question.
        share_of: the share of a family and subject.
    """
    for family, block in read("explained").items():
        rows = [fields(line) for line in lines(block)]
        for asks, (fact, false, granted) in rows:
            share = share_of(family, fact)
            beside = [other for _, (other, *_) in rows if other != fact and share_of(family, other) == share]
            texts = sentence(fact), sentence(false)
            for number in range(WORDINGS):
                key = f"{family} {fact} {number}"
                asked = framed(pick(frames["open"], key), pick(asks, fact, number), key)
                if beside and number == WORDINGS - 1:
                    asked = framed_after(pick(beside, key), pick(frames["context"], key), pick(asks, fact, number), key)
                yield Question(asked, *texts, "good question", "open", family, fact, number, granted)
            if drawn(f"{fact} told", TOLD) == 0:
                key = f"{family} {fact} told"
                asked = framed_after(fact, pick(frames["context"], key), pick(asks, fact), key)
                yield Question(asked, *texts, "trivial", "open", family, fact)
