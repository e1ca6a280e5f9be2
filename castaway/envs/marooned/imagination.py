"""Synthetic states of a game, for pretraining the tiny base model: other ships, stores and evidence than in real play.

The scripted games of the pretraining text rarely get far, so many states hardly occur in it: a finished sail over a
broken hull, for example, or strong evidence during an open vote. A policy meets such states once it has learned to win.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from castaway.envs.marooned.observation import Mate, Observation, phase_at
from castaway.envs.marooned.state import Clue

AT_CAMP = 0.3
"""Share of the synthetic states with the sailor at the camp, where ship and store matter most."""
COMPANY = 0.5
"""Share of those with another sailor at the camp too: building takes two."""
DISCUSSIONS = 0.3
"""Share of the synthetic states in which a vote can be called: there is one such turn in a day."""
CLUES = 0.3
"""Share of the synthetic states with evidence against a sailor, and of those in which the ship was broken unseen."""


def imagined(observation: Observation, random: Random) -> Observation:
    """A synthetic observation: the same sailor and day, but another ship, store, load, energy and evidence."""
    scenario = observation.scenario
    ship = {name: random.choice((0, 100, random.randint(1, 99))) for name in scenario.components}
    # With a finished ship the game would be over.
    if min(ship.values()) == 100:
        ship[random.choice(list(ship))] = random.randint(0, 99)
    useful = [*scenario.materials, *scenario.food]
    store = {kind: random.randint(1, 2 * scenario.gather_amount) for kind in useful if random.random() < 0.5}
    carried = random.choice(useful)
    at_camp = random.random() < AT_CAMP
    turn = _turn(observation, random)
    phase, phase_turn = phase_at(scenario, turn)
    return replace(
        observation,
        turn=turn,
        phase=phase,
        phase_turn=phase_turn,
        place=observation.camp if at_camp else observation.place,
        mates=_joined(observation, random) if at_camp and random.random() < COMPANY else observation.mates,
        energy=random.randint(1, scenario.energy.most),
        backpack=random.choice((observation.backpack, {}, {carried: random.randint(1, scenario.backpack)})),
        ate=random.random() < 0.5,
        store=dict(sorted(store.items())),
        ship=ship,
        progress=sum(part.share * ship[name] / 100 for name, part in scenario.components.items()),
        clues=_clues(observation, random),
    )


def _turn(observation: Observation, random: Random) -> int:
    """The same turn of the day, or one of a discussion."""
    days = range(1, observation.scenario.turns_per_day + 1)
    discussions = [turn for turn in days if phase_at(observation.scenario, turn)[0].vote]
    return random.choice(discussions) if discussions and random.random() < DISCUSSIONS else observation.turn


def _joined(observation: Observation, random: Random) -> tuple[Mate, ...]:
    """The other sailors, one of them moved to the camp if it is alive."""
    chosen = random.choice(observation.mates)
    come = replace(chosen, place=observation.camp if chosen.status == "alive" else None)
    return tuple(come if mate is chosen else mate for mate in observation.mates)


def _clues(observation: Observation, random: Random) -> tuple[Clue, ...]:
    """Evidence against a random sailor, with the strength of planted or of true evidence; or against nobody."""
    day, turn = observation.day, max(1, observation.turn - 1)
    found = [Clue(day, turn, "sabotage", "", 0, "The ship was broken by somebody.")] if random.random() < CLUES else []
    if random.random() < CLUES:
        strength = random.choice((random.randint(*observation.scenario.evidence.framing), 90, 95))
        about = random.choice([observation.name, *(mate.name for mate in observation.mates)])
        found.append(Clue(day, turn, "sabotage", about, strength, f"{about} was seen"))
    return tuple(found)
