"""Why a move is made: in a word or two for a tiny model, in a sentence in the full rendering."""

from __future__ import annotations

from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.naming import names
from castaway.envs.openspiel.observation import Observation

AIMLESS = "any"
"""The reasoning of a random move."""

_SENTENCES = {
    AIMLESS: "I just try something.",
    "win": "{} wins at once.",
    "block": "{} stops the other side.",
    "force": "{} leads to a win that cannot be stopped.",
    "risk": "{} is a risk.",
    "centre": "{} is in the centre.",
    "corner": "{} is a corner.",
    "edge": "{} is at the edge.",
    "side": "{} is away from the centre.",
    "pair": "{} makes a pair.",
    "join": "{} brings my sides closer together.",
    "bar": "{} gets in the way of the other side.",
    "aside": "{} changes little.",
    "capture": "{} takes stones.",
    "spread": "{} takes space.",
    "fill": "{} fills my own space.",
    "pass": "I pass.",
    "doubt": "I doubt the last bid.",
    "sure": "My own dice prove {}.",
    "likely": "{} is likely to be true.",
    "bluff": "{} is a bluff.",
    "even": "{} is worth as much as the point card.",
    "over": "{} is above the point card.",
    "under": "{} is below the point card.",
    "balance": "{} leaves the piles balanced.",
    "uneven": "{} leaves the piles unbalanced.",
}
"""Why a move is made, in a word, to the sentence that says so; `{}` is the name of the move."""


def reasons(observation: Observation) -> list[str]:
    """The reason for each move of the menu, with its name."""
    called = zip(move_values(observation), names(observation), strict=True)
    return [worded(observation, found.why, name) for found, name in called]


def worded(observation: Observation, why: str, name: str = "") -> str:
    """The reason `why` for a move, in the words of the rendering."""
    if observation.rendering != "full":
        return f"{why} {name}".rstrip()
    # What balances the piles of nim is told to a tiny model first, and the verdict comes last.
    sentence = _SENTENCES.get(why.split()[-1] if why.startswith("odd") else why)
    sentence = sentence or f"{why.capitalize()}: {{}}."
    return sentence.format(name)
