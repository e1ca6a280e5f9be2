"""Generates a new game from a seed: the island with piles and stairs, and the crew with its traitor."""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.scenario import Scenario
from castaway.envs.marooned.state import Pile, Place, Sailor, World


def new_world(scenario: Scenario, seed: int) -> World:
    """The world of `seed` at dawn of the first day."""
    random = Random(seed)
    camp: Place = (scenario.ground, scenario.camp[0], scenario.camp[1])
    traitor = random.choice(scenario.crew)
    sailors = {
        name: Sailor(name, "traitor" if name == traitor else "colonist", place, scenario.energy.start)
        for name, place in zip(scenario.crew, _landings(scenario, camp, random), strict=True)
    }
    stairs = _stairs(scenario, camp, random)
    piles = _piles(scenario, {camp, *stairs}, random)
    by_place: dict[Place, list[str]] = {}
    for pile in piles.values():
        by_place.setdefault(pile.place, []).append(pile.id)
    world = World(
        scenario=scenario,
        random=random,
        sailors=sailors,
        piles=piles,
        by_place=by_place,
        stairs=stairs,
        camp=camp,
        ship=dict.fromkeys(scenario.components, 0),
    )
    draw_weather(world)
    return world


def draw_weather(world: World) -> None:
    """Draw the weather of a new day; without weather in the scenario no random number is used."""
    rules = world.scenario.weather
    if rules is not None:
        any_today = world.random.randrange(100) < rules.chance
        world.weather = world.random.choice(["storm", "fog", "rain", "clear"]) if any_today else ""


def _landings(scenario: Scenario, camp: Place, random: Random) -> list[Place]:
    """The starting places of the sailors: all at the camp, or random tiles of the ground level."""
    if not scenario.scattered:
        return [camp] * len(scenario.crew)
    level = scenario.levels[scenario.ground]
    return [(scenario.ground, random.randrange(level.width), random.randrange(level.depth)) for _ in scenario.crew]


def _stairs(scenario: Scenario, camp: Place, random: Random) -> dict[Place, Place]:
    """Place of each stair to the place it leads to, which is the stair back.

    A stair without a fixed place is put on a random tile, but not on the camp or on another stair.
    """
    places: dict[tuple[str, str], Place] = {}
    for name, level in scenario.levels.items():
        for other, where in level.stairs.items():
            taken = {camp, *places.values()}
            # The camp is always taken, so it stands for "not placed yet".
            place: Place = (name, where[0], where[1]) if where else camp
            while place in taken:
                place = (name, random.randrange(level.width), random.randrange(level.depth))
            places[name, other] = place
    return {place: places[other, name] for (name, other), place in places.items()}


def _piles(scenario: Scenario, taken: set[Place], random: Random) -> dict[str, Pile]:
    """Random piles, by id: each on its own tile while there are enough, never on `taken` tiles."""
    piles: dict[str, Pile] = {}
    counts: dict[str, int] = {}
    for name, level in scenario.levels.items():
        tiles = [(name, x, y) for y in range(level.depth) for x in range(level.width) if (name, x, y) not in taken]
        kinds = [kind for kind, count in level.piles.items() for _ in range(count)]
        if len(kinds) > len(tiles):
            # More piles than tiles: list each tile often enough, so that several piles may share one.
            tiles = tiles * (len(kinds) // len(tiles) + 1)
        for kind, place in zip(kinds, random.sample(tiles, len(kinds)), strict=True):
            counts[kind] = counts.get(kind, 0) + 1
            pile_id = f"{kind.upper()}_{counts[kind]}"
            piles[pile_id] = Pile(pile_id, kind, place, scenario.pile_amount)
    return piles
