"""What a misspelt verb is taken for."""

from __future__ import annotations

from difflib import SequenceMatcher
from random import Random
from string import ascii_uppercase

from castaway.envs.marooned.actions import FORMS
from castaway.envs.marooned.teaching import _nearest


def by_comparing_all(word: str) -> str:
    """The first of the verbs with the largest ratio, if that is at least 0.75."""
    ratios = {verb: SequenceMatcher(None, verb, word, autojunk=False).ratio() for verb in FORMS}
    best = max(ratios, key=lambda verb: ratios[verb])
    return best if ratios[best] >= 0.75 else ""


def misspelt(verb: str, random: Random) -> str:
    """A verb with up to three letters left out, changed or put in."""
    letters = list(verb)
    for _ in range(random.randint(0, 3)):
        start = random.randrange(len(letters) + 1)
        letters[start : start + random.randint(0, 1)] = random.choice(["", *ascii_uppercase])
    return "".join(letters) or "A"


def test_a_word_is_taken_for_the_verb_that_is_most_like_it() -> None:
    random = Random(0)
    words = [misspelt(verb, random) for verb in FORMS for _ in range(40)]
    words += ["".join(random.choices("ACDEIORSTVW", k=random.randint(1, 12))) for _ in range(400)]
    expected = [by_comparing_all(word) for word in words]
    assert [_nearest(word) for word in words] == expected
    assert set(FORMS) < set(expected) and expected.count("") > 200
