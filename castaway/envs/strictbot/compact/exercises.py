"""What a served teacher is asked to write in the compact rendering."""

from __future__ import annotations

from castaway.envs.strictbot.compact.questions import value_of
from castaway.envs.strictbot.compact.reading import READER
from castaway.envs.strictbot.exercise import Exercise, demand
from castaway.envs.strictbot.question import LEVELS, Kind

ASKED = (
    "You write exercises for a tutor. An exercise is a question, what is known about it, and three answers. Write "
    "one of the kind that you are told, about something else than the example. Plain words, no question mark. "
    "`fact` and `false` begin with `it is`, in at most eight words; `false` is what is not so. "
    "A factual error or a misconception ends in what is false and does not name the fact. A trivial question names the "
    "fact. Where the logic is poor, the fact is `it is perhaps` and what else may be. "
    "Each answer is one civil sentence that contains the fact, word for word, and nothing false: `help` offers help, "
    "`challenge` challenges the reasoning, `correction` corrects firmly. Answer with one JSON object."
)


def check(found: Exercise, kind: Kind) -> None:
    """Raise ValueError if the question is not of the kind."""
    fact, false = value_of(found.fact), value_of(found.false)
    for name, sentence in (("fact", found.fact), ("false", found.false)):
        demand(sentence.startswith("it is ") and len(sentence.split()) <= 10, f"{name} is no short `it is` sentence")
    demand(READER.words(fact) != READER.words(false), "fact and false are the same")
    demand(3 <= len(found.asked.split()) <= 40, "asked has fewer than 3 words, or more than 40")
    if LEVELS[kind] == 3:
        demand(READER.says(found.asked, false), "asked does not name what is false")
        demand(not READER.says(found.asked, fact), "asked names the fact")
    if kind == "trivial":
        demand(READER.says(found.asked, fact), "asked does not name the fact")
    if kind == "poor logic":
        demand(fact.startswith("perhaps "), "fact does not begin with `it is perhaps`")
