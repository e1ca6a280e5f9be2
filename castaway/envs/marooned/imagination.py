"""Synthetic states of a game, for pretraining the tiny base model: ships, stores and evidence that no play led to.

The crews whose games make that text rarely come far: a finished sail over a broken hull, or strong evidence beside an
open vote, hardly ever stands in it. Who trains on real play meets all of that once it has learned to win.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from castaway.envs.marooned.observation import Mate, Observation
from castaway.envs.marooned.state import Clue

AT_CAMP = 0.3
"""Share of the synthetic states in which the sailor stands at the camp, where most of it matters."""
COMPANY = 0.5
"""Share of those in which a mate stands there too: it takes two to build."""
CLUES = 0.3
"""Share of them with evidence."""


def imagined(observation: Observation, random: Random) -> Observation:
    """The same sailor on the same day, with another ship, store, load, strength and evidence."""
    scenario = observation.scenario
    ship = {name: random.choice((0, 100, random.randint(1, 99))) for name in scenario.components}
    if min(ship.values()) == 100:
        ship[random.choice(list(ship))] = random.randint(0, 99)
    useful = [*scenario.materials, *scenario.food]
    store = {kind: random.randint(1, 2 * scenario.gather_amount) for kind in useful if random.random() < 0.5}
    carried = random.choice(useful)
    at_camp = random.random() < AT_CAMP
    return replace(
        observation,
        place=observation.camp if at_camp else observation.place,
        mates=_joined(observation, random) if at_camp and random.random() < COMPANY else observation.mates,
        energy=random.randint(1, scenario.energy.most),
        backpack=random.choice((observation.backpack, {}, {carried: random.randint(1, scenario.backpack)})),
        ate=random.random() < 0.5,
        store=dict(sorted(store.items())),
        ship=ship,
        progress=sum(part.share * ship[name] / 100 for name, part in scenario.components.items()),
        clues=(_clue(observation, random),) if random.random() < CLUES else (),
    )


def _joined(observation: Observation, random: Random) -> tuple[Mate, ...]:
    """The mates, one of whom has come to the camp if it lives."""
    chosen = random.choice(observation.mates)
    come = replace(chosen, place=observation.camp if chosen.status == "alive" else None)
    return tuple(come if mate is chosen else mate for mate in observation.mates)


def _clue(observation: Observation, random: Random) -> Clue:
    """Evidence against any mate, planted or true."""
    strength = random.choice((random.randint(*observation.scenario.evidence.framing), 90, 95))
    about = random.choice(observation.mates).name
    return Clue(observation.day, max(1, observation.turn - 1), "sabotage", about, strength, f"{about} was seen")
