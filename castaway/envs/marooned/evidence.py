"""The public log of evidence. Planted entries look exactly like true ones."""

from __future__ import annotations

import re

from castaway.envs.marooned.pay import Pay
from castaway.envs.marooned.state import Clue, Sailor, World, distance


def log_clue(world: World, pay: Pay, kind: str, about: str, strength: int, text: str) -> None:
    """Add an entry to the log; a sailor named too often loses reward for it, once."""
    world.clues.append(Clue(world.day, world.turn, kind, about, strength, text))
    if about:
        sailor = world.sailors[about]
        sailor.named += 1
        if sailor.named == world.scenario.named_limit + 1:
            pay.add(sailor, pay.of(sailor).named)


def witnesses(world: World, doer: Sailor, apart_from: str = "") -> bool:
    """Whether another living sailor (except `apart_from`) is near enough to recognise `doer`."""
    reach = world.scenario.evidence.witness
    return any(
        distance(other.place, doer.place) <= reach
        for other in world.living
        if other is not doer and other.name != apart_from
    )


def see_sabotage(world: World, pay: Pay, sailor: Sailor, component: str) -> None:
    """Log sabotage; the entry names the saboteur only if somebody saw it."""
    strength = world.scenario.evidence.sabotage
    if strength is not None and witnesses(world, sailor):
        log_clue(world, pay, "sabotage", sailor.name, strength, f"{sailor.name} was seen breaking the {component}.")
    else:
        log_clue(world, pay, "sabotage", "", 0, f"The {component} was broken by somebody.")


def see_poison(world: World, pay: Pay, sailor: Sailor) -> None:
    """Log that a sailor gathered poison, if another sailor saw it."""
    strength = world.scenario.evidence.poison_collected
    if strength is not None and witnesses(world, sailor):
        log_clue(world, pay, "poison", sailor.name, strength, f"{sailor.name} was seen gathering poison.")


def frame(world: World, pay: Pay, name: str) -> None:
    """Plant an entry against `name` that looks like a true one."""
    strength = world.random.randint(*world.scenario.evidence.framing)
    component = world.random.choice(list(world.scenario.components))
    log_clue(world, pay, "sabotage", name, strength, f"{name} was seen breaking the {component}.")


def close_day_tally(world: World, pay: Pay) -> None:
    """At the end of a day, log sailors that handed in much less material than they gathered."""
    rules = world.scenario.evidence
    for sailor in world.living:
        missing = sailor.gathered - sailor.handed_in
        if rules.resource_theft is not None and missing * 100 > rules.theft_margin * sailor.gathered > 0:
            text = f"{sailor.name} handed in {missing} less than was gathered."
            log_clue(world, pay, "theft", sailor.name, rules.resource_theft, text)
        sailor.gathered = sailor.handed_in = 0


_CLAIM = re.compile(r"\bI am at (?:(\w+) )?\((\d+), ?(\d+)\)")


def compare_claim(world: World, pay: Pay, sailor: Sailor, text: str) -> None:
    """Log a lie about the own position («I am at (x,y)»), if another sailor can see where the speaker is."""
    strength = world.scenario.evidence.location_mismatch
    claim = _CLAIM.search(text)
    if strength is None or claim is None:
        return
    level, x, y = claim.groups()
    honest = (int(x), int(y)) == sailor.place[1:] and level in (None, sailor.place[0])
    if not honest and witnesses(world, sailor):
        log_clue(world, pay, "location", sailor.name, strength, f"{sailor.name} was not where {sailor.name} said.")
