"""How what people type becomes a question of the compact rendering: a claim that ends in its value, and `it is VALUE`.

A sentence of what is known is cut in two, `the sun rises` and `in the east`. A typed line with all the words of the
first part claims another value, `does the sun rise in the west`, or asks for it, `where does the sun rise`. Whether the
values differ is for the tutor to see; here only lines are refused about which the sentence says nothing.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from castaway.envs.strictbot import compact_questions, english_questions
from castaway.envs.strictbot.english import difference
from castaway.envs.strictbot.question_bank import Observation, read
from castaway.tools.strictbot.facts import COMMON, TYPED, Fact
from castaway.tools.strictbot.wording import COPULAS, OPEN, stems_at, stems_of, written_out

ARTICLES = frozenset(("a", "an", "the"))
LINKS = ARTICLES | {"in", "on", "at", "by", "from", "to", "of", "with", "for", "about", "under", "near"}
VERBS = COPULAS | {"has", "have", "had"}
GENERIC = frozenset(stems_of("number many much name call city country come time"))  # as in `which city`, `how many`
LONGEST = 8  # most words of a value; the bank's have 6, and the tiny tutor gets longer ones wrong
PLACE, TIME, NUMBER = r"(?:in|on|at|by|near|under) ", r"(?:in|on|at|from|after|before) |.*\d", r".*\d"
ASKED_FOR = {"where": PLACE, "when": TIME, "who": "[A-Z]", "how": NUMBER, "what": "", "which": ""}
"""How values begin that open questions ask for; `why` asks for none."""


class Cut(NamedTuple):
    """A sentence cut in two; together they are the claim."""

    stem: str
    value: str


def cuts(sentence: str) -> Iterator[Cut]:
    """The ways to cut a sentence: at each `is`, and before the last words, with their preposition and article."""
    words = sentence.strip().rstrip(".!?").split() or [""]
    name = words[0]
    words[0] = name.lower() if name.lower() in compact_questions.bank().all_words else name
    for place, word in enumerate(words[1:-1], 1):
        if word in COPULAS:
            subject, value = " ".join(words[:place]), " ".join(words[place + 1 :])
            yield Cut(f"{subject} {word}", value)
            if value.startswith("the "):
                yield Cut(f"{value} {word}", subject)
    links = [word in LINKS for word in words]
    begins = [link or word[:1].isdigit() for link, word in zip(links, words, strict=True)]
    starts = [place for place in range(2, len(words)) if begins[place] and not links[place - 1]]
    for place in reversed(starts or range(max(2, len(words) - 1), len(words))):
        yield Cut(" ".join(words[:place]), " ".join(words[place:]))
    if len(words) > 2 and name[:1].isupper() and words[1].endswith("ed"):
        yield Cut(f"the one who {' '.join(words[1:])} is", name)


def observation_of(clause: str, facts: Sequence[Fact]) -> tuple[Observation, Fact] | None:
    """The question of the compact rendering that a typed clause is, and the fact behind it; None if there is none.

    Of several facts one that the clause agrees with is taken: `Anna is tall` and `Anna is a doctor` do not exclude
    each other.
    """
    first = clause.split(" ")[0].lower()
    excluded = None
    for fact in facts:
        frame = read("compact/asking")["belief" if fact.form == "belief" else "check"][0]
        for cut in cuts(fact.text if fact.family else written_out(fact.text)):
            value, known = cut.value.split(" "), f"it is {cut.value}"
            if len(value) > LONGEST or not VERBS.isdisjoint(value):
                continue
            if first in OPEN:
                if _asks_for(clause, first, cut):
                    return Observation(with_capitals(clause, fact.text), known), fact
            elif claimed := _claimed(clause, cut):
                if stems_of(claimed) == stems_of(cut.value):
                    return Observation(frame.format(" ".join(cut)), known), fact
                if not excluded and _excludes(claimed, cut.value, fact):
                    claim = f"{cut.stem} {with_capitals(claimed, fact.text)}"
                    excluded = Observation(frame.format(claim), known), fact
    return excluded


def with_capitals(text: str, fact: str) -> str:
    """With the capitals that the fact and the bank write words with."""
    own = {word.lower(): word for word in re.findall(r"\w+", fact)[1:]}
    return re.sub(r"\w+", lambda one: own.get(one[0].lower(), _names().get(one[0].lower(), one[0])), text)


@cache
def _names() -> dict[str, str]:
    words = compact_questions.bank().all_words
    return {word.lower(): word for word in words if word.lower() not in words}


def _asks_for(clause: str, first: str, cut: Cut) -> bool:
    """Whether an open question asks for the value of a cut and about nothing else."""
    asked, key, value = (set(stems_of(text)) for text in (clause, *cut))
    fits = key - COMMON - GENERIC <= asked and asked - COMMON - GENERIC <= key | value
    return fits and bool(re.match(ASKED_FOR.get(first, "$"), cut.value))


def _claimed(clause: str, cut: Cut) -> str:
    """What a clause claims in place of the value: the words before or after those of the stem; empty if none."""
    words, key = stems_at(clause), stems_of(cut.stem.removeprefix("the one who "))
    stems, size = tuple(word for word, *_ in words), len(key)
    if key and len(words) > size and key in (stems[:size], stems[-size:]):
        (_, start, _), *_ = rest = words[size:] if stems[:size] == key else words[:-size]
        before = clause[:start].split(" ")[-2:][0].lower()
        return f"{before if before in ARTICLES else ''} {clause[start : rest[-1][2]]}".strip()
    return ""


def _excludes(claimed: str, value: str, fact: Fact) -> bool:
    """Whether a claim is false if another value is so: both are numbers, or values that are told of the same things."""
    one, other = stems_of(claimed), stems_of(value)
    if "not" in one + other:
        return [word for word in one if word != "not"] == [word for word in other if word != "not"]
    if fact.source == TYPED:
        return True
    if re.search(r"\d", " ".join(other)):
        return len(one) <= len(other) and bool(re.search(r"\d", " ".join(one)))
    if fact.family:
        return one in _values()[fact.family]
    begin, beginning = (text.split(" ")[0] for text in (claimed, value))
    if begin.lower() in LINKS or beginning in LINKS:
        return begin.lower() == beginning
    named = value[0].isupper() and len(other) == 1
    return (one[:-1] == other[:-1] and (named or len(other) > 1)) or any(
        {one, other} <= own for own in _values().values()
    )


@cache
def _values() -> dict[str, set[tuple[str, ...]]]:
    """The values, right and wrong ones, that the bank tells of the subjects of each family."""
    values: dict[str, set[tuple[str, ...]]] = {}
    for question in compact_questions.bank().questions:
        both = [compact_questions.value_of(one) for one in (question.fact, question.false)]
        values.setdefault(question.family, set()).update(map(stems_of, both))
    for question in english_questions.bank().questions:
        values.setdefault(question.family, set()).update(map(stems_of, difference(question.fact, question.false)))
    return values
