"""What a tutor thinks before it answers: what the question says, beside what is known, and then its kind.

A model that has written both down has only to compare two words that stand side by side. Whoever answers without a
look at the question writes the kind alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from castaway.envs.strictbot.english.reading import READER
from castaway.envs.strictbot.question import Kind, Question

LONGEST = 6
"""Most words of what is compared; where fact and false statement differ in more, the whole claim is written down."""


def reasoning(question: Question, kind: Kind) -> str:
    """The reasoning that ends in `kind`: `it says 180, but it is 126: factual error`."""
    found = compared(question) or claimed(question)
    return f"{found}: {kind}" if found else kind


def compared(question: Question) -> str:
    """What a claim or an open question says beside its fact; empty where no few words decide."""
    true, false = differing(question.fact, question.false)
    if not true or not false:
        return "it says so itself" if question.kind == "trivial" else ""
    says_true, says_false = (READER.says(question.asked, value) for value in (true, false))
    if question.form == "open" and says_true == (question.kind == "trivial"):
        return f"it says {true} itself" if says_true else f"it does not say {true}"
    if question.form == "check" and says_true != says_false == (question.kind != "good question"):
        return f"it says {false}, but it is {true}" if says_false else f"it says {true}, and so it is"
    return ""


def claimed(question: Question) -> str:
    """What a question claims, concludes or takes for granted, without slips of the pen, and whether it is so."""
    claim, right = question.claim, question.kind == "good question"
    if question.form == "conclusion" and question.doubtful:
        return f"it doubts that {claim}, which is {'open' if right else 'certain'}"
    if question.form == "conclusion":
        return f"it concludes that {claim}, which {'follows' if right else 'does not follow'}"
    return f"it says that {claim}, which is {'so' if right else 'not so'}" if claim else ""


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
