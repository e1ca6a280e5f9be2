"""Questions why and how, whose answer is an explanation, and the same after it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from castaway.envs.strictbot.bank import Share, drawn
from castaway.envs.strictbot.english.phrasing import framed, pick, sentence
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
                    asked = _after(pick(beside, key), pick(asks, fact, number), frames, key)
                yield Question(asked, *texts, "good question", "open", family, fact, number, granted)
            if drawn(f"{fact} told", TOLD) == 0:
                asked = _after(fact, pick(asks, fact), frames, f"{family} {fact} told")
                yield Question(asked, *texts, "trivial", "open", family, fact)


def _after(known: str, asked: str, frames: Mapping[str, list[str]], key: str) -> str:
    """A question after what is known."""
    frame = pick(frames["context"], key).replace("{k}", known).replace("{K}", sentence(known))
    return framed(frame, asked, key)
