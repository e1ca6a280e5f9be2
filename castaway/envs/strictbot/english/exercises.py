"""What a served teacher is asked to write in the full rendering."""

from __future__ import annotations

from castaway.envs.strictbot.english.reading import READER
from castaway.envs.strictbot.exercise import Exercise, demand
from castaway.envs.strictbot.question import LEVELS, Kind

ASKED = (
    "You write exercises for a tutor. An exercise is a question as a person types it, a known fact, and three answers. "
    "Write one of the kind that you are told, about something else than the example. `fact` is one true sentence of at "
    "most 15 words; `false` is the same sentence with an error. A factual error is a claim that contradicts the fact; "
    "a misconception is a common belief that does; a trivial question contains its own answer; where the logic is "
    "poor, premises are followed by a conclusion that the fact does not allow. A good question asks for the fact, or "
    "has it right. Each answer is civil and contains the fact, word for word, and nothing false, in at most 30 words: "
    "`help` offers help, `challenge` challenges the reasoning, `correction` corrects firmly. "
    "Answer with one JSON object."
)


def check(found: Exercise, kind: Kind) -> None:
    """Raise ValueError if fact and false statement are no sentences, or the question is not of the kind."""
    for name, sentence in (("fact", found.fact), ("false", found.false)):
        demand(sentence.endswith(".") and len(sentence.split()) <= 20, f"{name} is no sentence of at most 20 words")
    demand(READER.words(found.fact) != READER.words(found.false), "fact and false are the same")
    demand(3 <= len(found.asked.split()) <= 60, "asked has fewer than 3 words, or more than 60")
    if LEVELS[kind] == 3:
        demand(not READER.says(found.asked, found.fact), "asked says the fact")
