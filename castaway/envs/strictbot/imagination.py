"""Made-up questions: those of the bank with other words in them, for who has to copy and to compare any word.

Whoever reads the bank alone learns its facts by heart, and fails where it meets others.
"""

from __future__ import annotations

from random import Random

from castaway.envs.strictbot.bank import vocabulary
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import value_of
from castaway.envs.strictbot.telling import core_of, form_of, framed, named

KEPT = ("perhaps", "surely")
"""What a conclusion allows: these words say it."""
OTHERS = (0.3, 1.0)
"""Shares of a question's words that become others; those of what is known all do."""
UNNAMED = 0.25
"""Share of the open questions which hold what is known that no longer do: the bank has two of them for one other."""


def imagined(observation: Observation, random: Random) -> Observation:
    """A question alike in all but its words: each becomes another one, the same wherever it stands."""
    _, before, after = framed(observation.asked)
    core, value = core_of(observation.asked).split(" "), value_of(observation.fact).split(" ")
    share = random.choice(OTHERS)
    changed = [word for word in dict.fromkeys([*value, *core]) if word not in KEPT]
    changed = [word for word in changed if word in value or random.random() < share]
    kept = {*core, *value} - {*changed}
    new = [word for word in random.sample(vocabulary(), len(changed) + len(kept) + 1) if word not in kept]
    into = dict(zip(changed, new, strict=False))
    asked = before + " ".join(into.get(word, word) for word in core) + after
    known = [into.get(word, word) for word in value]
    is_open = form_of(observation.asked, observation.fact) == "open"
    if is_open and named(observation.asked, observation.fact) and random.random() < UNNAMED:
        known[-1] = new[len(changed)]
    return Observation(asked, f"it is {' '.join(known)}")
