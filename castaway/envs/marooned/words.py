"""The aims of scripted sailors as sentences, for the full rendering."""

from __future__ import annotations

import re

from castaway.envs.marooned.actions import DIRECTIONS

_SENTENCES = {
    "hungry": "I have to eat.",
    "store": "The store needs this.",
    "ready": "The material for it is in the store.",
    "unseen": "Nobody is near enough to see me.",
    "blame": "Somebody else shall be suspected.",
    "rest": "There is nothing to do.",
    "wander": "I have no plan.",
}


def in_words(aim: str) -> str:
    """The sentence for an aim: `camp EAST` is `The camp is to the east.`"""
    what, _, where = aim.rpartition(" ")
    if not what:
        return _SENTENCES.get(where, where)
    if what == "suspect":
        return f"The evidence is against {where}."
    thing = "place to search" if what == "search" else re.sub(r"_\d+$", "", what).lower()
    if where in DIRECTIONS:
        return f"The {thing} is to the {where.lower()}."
    return f"The {thing} is here." if where == "here" else f"The {thing} is on level {where}."
