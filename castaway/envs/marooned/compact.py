"""The short rendering of an observation, for models with little room: a table of about a hundred words.

Every fact always stands at the same place, counted from the end, because a model of a million parameters learns to
look at a place long before it learns to search. Of each resource, and of what the ship needs next, it shows the
nearest pile to which no other sailor in sight has the better claim, as a heading and a number of steps. Of what could
be handed in, and of what could be built, it names the first.
"""

from __future__ import annotations

from castaway.envs.marooned.conduct import build_problem
from castaway.envs.marooned.observation import Mate, Observation, SeenPile
from castaway.envs.marooned.state import Place

WORDS_HEARD = 40
"""Characters of the last message that are shown."""


def system_text(observation: Observation) -> str:
    """Who the reader is."""
    return f"You are {observation.name} the {observation.role}"


def user_text(observation: Observation) -> str:
    """What the reader knows."""
    useful = [*_materials(observation), *observation.scenario.food]
    goal = next_pile(observation)
    fetch = f"{goal.id} {_way(observation.place, goal.place)}" if goal else "nothing here 0"
    named, strength = _suspect(observation)
    vote = "open" if observation.vote_open else "closed"
    ship = " ".join(f"{name} {points}" for name, points in observation.ship.items())
    kind, amount = next(iter(bringable(observation).items()), ("nothing", 0))
    ready = next(iter(ready_components(observation)), "nothing")
    meal = "fed" if observation.ate else "hungry"
    return "\n".join(
        [
            *_talk(observation),
            *_rarities(observation, useful),
            f"day {observation.day} turn {observation.turn} suspect {named} {strength} vote {vote}",
            f"crew {' '.join(_mate(observation, mate) for mate in observation.mates)}",
            f"ship {ship}",
            f"store {_count(observation.store, useful)}",
            " ".join(["piles", *(_pile(observation, kind) for kind in observation.scenario.resources)]),
            f"pack {_count(observation.backpack, useful)} room {observation.scenario.backpack - observation.load}",
            f"you {observation.symptoms or 'well'} {meal} energy {observation.energy} {observation.phase.name} "
            f"next {fetch} camp {_way(observation.place, observation.camp)} bring {kind} {amount} ready {ready}",
        ]
    )


def nearest_pile(observation: Observation, kinds: set[str]) -> SeenPile | None:
    """The nearest known pile of these kinds, those first that no other sailor in sight has the better claim to."""
    piles = [pile for pile in observation.piles if pile.kind in kinds and pile.place[0] == observation.place[0]]
    claims = [(mate.place, mate.name) for mate in observation.mates if mate.place is not None]

    def cost(pile: SeenPile) -> tuple[bool, int, str]:
        mine = steps(observation.place, pile.place)
        claimed = any((steps(place, pile.place), name) < (mine, observation.name) for place, name in claims)
        return claimed, mine, pile.id

    return min(piles, key=cost, default=None)


def remaining_need(observation: Observation) -> dict[str, int]:
    """Material to the units that the ship still costs beyond what the store holds."""
    need: dict[str, int] = {}
    for name, part in observation.scenario.components.items():
        builds = -(-(100 - observation.ship[name]) // -(-100 // part.steps))
        for kind, amount in part.step_cost.items():
            need[kind] = need.get(kind, 0) + builds * amount
    return {kind: amount - observation.store.get(kind, 0) for kind, amount in need.items()}


def next_pile(observation: Observation) -> SeenPile | None:
    """The nearest pile of a material that the ship needs beyond what is stored and what the sailor carries."""
    need = remaining_need(observation)
    return nearest_pile(observation, {kind for kind, n in need.items() if n > observation.backpack.get(kind, 0)})


def bringable(observation: Observation) -> dict[str, int]:
    """What the sailor carries that the ship is made of."""
    materials = _materials(observation)
    return {kind: amount for kind, amount in observation.backpack.items() if kind in materials}


def ready_components(observation: Observation) -> list[str]:
    """Components that could be built at the camp with what the store holds."""
    return [name for name in observation.scenario.components if not build_problem(observation, name)]


def steps(start: Place, end: Place) -> int:
    """Walking distance on one level."""
    return abs(start[1] - end[1]) + abs(start[2] - end[2])


def heading(start: Place, end: Place) -> str:
    """The direction of the first step (east or west before north or south), `here`, or another level's name."""
    if start[0] != end[0]:
        return end[0]
    east, south = end[1] - start[1], end[2] - start[2]
    if east:
        return "EAST" if east > 0 else "WEST"
    return ("SOUTH" if south > 0 else "NORTH") if south else "here"


def _way(start: Place, end: Place) -> str:
    return f"{heading(start, end)} {steps(start, end) if start[0] == end[0] else 0}"


def _count(box: dict[str, int], resources: list[str]) -> str:
    return " ".join(f"{kind} {box.get(kind, 0)}" for kind in resources)


def _materials(observation: Observation) -> list[str]:
    parts = observation.scenario.components.values()
    return [kind for kind in observation.scenario.resources if any(kind in part.step_cost for part in parts)]


def _rarities(observation: Observation, useful: list[str]) -> list[str]:
    """What stands in the table only when there is some of it."""
    lines = [f"stair {observation.stair[0]}"] if observation.stair else []
    for name, box in (("store", observation.store), ("pack", observation.backpack)):
        rare = [kind for kind in box if kind not in useful]
        lines += [f"{name} also {_count(box, rare)}"] if rare else []
    return lines


def _mate(observation: Observation, mate: Mate) -> str:
    if mate.status != "alive" or mate.place is None:
        return f"{mate.name} {mate.status if mate.status != 'alive' else 'away'} 0"
    return f"{mate.name} {_way(observation.place, mate.place)}"


def _suspect(observation: Observation) -> tuple[str, int]:
    """The living mate whom the strongest clue names."""
    living = {mate.name for mate in observation.mates if mate.status == "alive"}
    named = [clue for clue in observation.clues if clue.about in living]
    if not named:
        return "nobody", 0
    worst = max(named, key=lambda clue: (clue.strength, clue.day, clue.turn, clue.about))
    return worst.about, worst.strength


def _talk(observation: Observation) -> list[str]:
    heard = [message for message in observation.messages if message.speaker != observation.name]
    if not heard:
        return []
    return [f"{heard[-1].speaker} says {' '.join(heard[-1].text[:WORDS_HEARD].split())}"]


def _pile(observation: Observation, kind: str) -> str:
    pile = nearest_pile(observation, {kind})
    return f"{pile.id} {_way(observation.place, pile.place)}" if pile else f"{kind} gone 0"
