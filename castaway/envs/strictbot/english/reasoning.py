"""What a tutor thinks before it answers: what the question says, beside what is known, and then its kind.

A model that has written both down has only to compare two words that stand side by side. Whoever answers without a
look at the question writes the kind alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from castaway.envs.strictbot.english.reading import READER
from castaway.envs.strictbot.question import Kind, Question

LONGEST = 6
"""Most words of what is compared; where fact and false statement differ in more, the kind stands alone."""


def reasoning(question: Question, kind: Kind) -> str:
    """The reasoning that ends in `kind`: `it says 180, but it is 126: factual error`."""
    found = compared(question)
    return f"{found}: {kind}" if found else kind


def compared(question: Question) -> str:
    """What a question says beside its fact; empty where no few words decide, as in conclusions."""
    true, false = differing(question.fact, question.false)
    if not true or not false:
        return ""
    says_true, says_false = (READER.says(question.asked, value) for value in (true, false))
    if question.form == "open" and says_true == (question.kind == "trivial"):
        return f"it says {true} itself" if says_true else f"it does not say {true}"
    if question.form in ("check", "belief") and says_true != says_false == (question.kind != "good question"):
        return f"it says {false}, but it is {true}" if says_false else f"it says {true}, and so it is"
    return ""


def differing(one: str, other: str) -> tuple[str, str]:
    """The words in which two sentences differ, at least one of each; empty texts if those are many."""
    left, right = (text.rstrip(".").split() for text in (one, other))
    most = min(len(left), len(right)) - 1
    start = min(_alike(left, right), most)
    end = min(_alike(left[::-1], right[::-1]), most - start)
    parts = [words[start : len(words) - end] for words in (left, right)]
    if max(map(len, parts)) > LONGEST:
        return "", ""
    return " ".join(parts[0]), " ".join(parts[1])


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
