"""The compact rendering of an observation, for tiny models: a table of about a hundred words.

Each fact is always at the same position, counted from the end, because a model of a million parameters learns to look
at a position long before it learns to search. For each resource, and for the material that the ship needs next, the
table shows one pile with a direction and a number of steps: the nearest one, except that piles which another visible
sailor reaches sooner come last. Of the materials that can be deposited it names the first, and so `ready` does of the
components that can be built or, for a traitor, damaged; `far` is a traitor out of reach of the ship. `lurks` names who
may have broken the ship unseen, and `blamed` is the strength of what the log holds against the sailor itself.
"""

from collections.abc import Collection

from castaway.envs.marooned.actions import Action, build_problem, refuse
from castaway.envs.marooned.affairs import (
    asker,
    case,
    patient,
    prey,
    quarry,
    searched,
    speaks_first,
    stair_home,
    turns_left,
)
from castaway.envs.marooned.observation import Mate, Observation
from castaway.envs.marooned.state import Place, SeenPile, distance

Nearest = dict[str, tuple[tuple[bool, int, str], SeenPile]]
"""Resource to its best pile, with the key that piles are compared by; see `nearest_piles`."""

WORDS_HEARD = 40  # number of characters of the last message that are shown


def system_text(observation: Observation) -> str:
    return f"You are {observation.name} the {observation.role}"


def user_text(observation: Observation) -> str:
    useful = [*dict.fromkeys((*observation.scenario.materials, *observation.scenario.food))]
    near = nearest_piles(observation)
    goal = _nearest(near, _wanted(observation))
    fetch = f"{goal.id} {_way(observation.place, goal.place)}" if goal else "nothing here 0"
    named, strength = _suspect(observation)
    vote = "open" if observation.vote_open else "closed"
    ship = " ".join(f"{name} {points}" for name, points in observation.ship.items())
    kind, amount = next(iter(bringable(observation).items()), ("nothing", 0))
    meal = "fed" if observation.ate else "hungry"
    blamed = max((clue.strength for clue in observation.clues if clue.about == observation.name), default=0)
    here = (mate.name for mate in observation.mates if mate.status == "alive" and mate.place == observation.place)
    return "\n".join(
        [
            *_talk(observation),
            *_rarities(observation, useful),
            *([_company(observation)] if observation.scenario.repertoire == "whole" else []),
            f"day {observation.day} turn {observation.turn} suspect {named} {strength} vote {vote}",
            f"crew {' '.join(_mate(observation, mate) for mate in observation.mates)}",
            f"ship {ship}",
            f"store {_count(observation.store, useful)}",
            " ".join(["piles", *(_pile(observation, near, kind) for kind in observation.scenario.resources)]),
            f"pack {_count(observation.backpack, useful)} room {observation.scenario.backpack - observation.load}",
            f"you {observation.symptoms or 'well'} {meal} energy {observation.energy} "
            f"blamed {blamed} {observation.phase.name} "
            f"next {fetch} camp {_way(observation.place, observation.camp)} bring {kind} {amount} "
            f"beside {next(here, 'nobody')} lurks {lurker(observation) or 'nobody'} ready {_ready(observation)}",
        ]
    )


def nearest_pile(observation: Observation, kinds: Collection[str]) -> SeenPile | None:
    """The nearest known pile of these resources; piles that another visible sailor reaches sooner come last."""
    return _nearest(nearest_piles(observation), kinds)


def nearest_piles(observation: Observation) -> Nearest:
    """The best known pile of each resource on the sailor's level, with its sort key.

    The key is (whether another visible sailor reaches the pile sooner, number of steps, id). If two sailors are equally
    near, the first by name has the claim, so that they do not both walk to the same pile.
    """
    level, x, y = observation.place
    # Plain loops instead of `steps` and `any`: every prompt runs this for all piles.
    places = [(mate.place, mate.name < observation.name) for mate in observation.mates if mate.place is not None]
    claims = [(east, south, before) for (where, east, south), before in places if where == level]
    best: Nearest = {}
    for pile in observation.piles:
        where, east, south = pile.place
        if where != level:
            continue
        mine = abs(x - east) + abs(y - south)
        known = best.get(pile.kind)
        claimed = False
        for mate_x, mate_y, before in claims:
            theirs = abs(mate_x - east) + abs(mate_y - south)
            if theirs < mine or (theirs == mine and before):
                claimed = True
                break
        cost = (claimed, mine, pile.id)
        if known is None or cost < known[0]:
            best[pile.kind] = (cost, pile)
    return best


def _nearest(best: Nearest, kinds: Collection[str]) -> SeenPile | None:
    first = min((best[kind] for kind in kinds if kind in best), key=lambda keyed: keyed[0], default=None)
    return first[1] if first else None


def remaining_need(observation: Observation) -> dict[str, int]:
    """Material to the units that the ship still needs beyond those in the store; negative if the store has more."""
    need: dict[str, int] = {}
    for name, part in observation.scenario.components.items():
        # Both divisions round up: a step is worth ceil(100 / steps) points, and sabotage can leave part of a step.
        builds = -(-(100 - observation.ship[name]) // -(-100 // part.steps))
        for kind, amount in part.step_cost.items():
            need[kind] = need.get(kind, 0) + builds * amount
    return {kind: amount - observation.store.get(kind, 0) for kind, amount in need.items()}


def next_pile(observation: Observation) -> SeenPile | None:
    return nearest_pile(observation, _wanted(observation))


def _wanted(observation: Observation) -> list[str]:
    return [kind for kind, need in remaining_need(observation).items() if need > observation.backpack.get(kind, 0)]


def bringable(observation: Observation) -> dict[str, int]:
    return {kind: amount for kind, amount in observation.backpack.items() if kind in observation.scenario.materials}


def ready_components(observation: Observation) -> list[str]:
    """Components that can be built at the camp now with the materials in the store.

    For the traitor, those that it can damage from where it stands: the ship is in reach from the tiles around it, also
    across a corner, and a number of steps does not tell a corner from two steps ahead.
    """
    if observation.role == "traitor":
        strikes = {name: Action("SABOTAGE", (name,)) for name in observation.scenario.components}
        return [name for name, strike in strikes.items() if refuse(observation, strike) is None]
    return [name for name in observation.scenario.components if not build_problem(observation, name)]


def _ready(observation: Observation) -> str:
    out_of_reach = distance(observation.place, observation.camp) > observation.scenario.sabotage_range
    idle = "far" if observation.role == "traitor" and out_of_reach else "nothing"
    return next(iter(ready_components(observation)), idle)


def lurker(observation: Observation) -> str:
    """The sailor that stands beside the ship, if it is the only one there and somebody has broken the ship unseen."""
    if not any(clue.kind == "sabotage" and not clue.about for clue in observation.clues):
        return ""
    reach = observation.scenario.sabotage_range
    mates = [mate for mate in observation.mates if mate.status == "alive"]
    near = [mate.name for mate in mates if mate.place and 0 < distance(mate.place, observation.camp) <= reach]
    return near[0] if len(near) == 1 else ""


def steps(start: Place, end: Place) -> int:
    return abs(start[1] - end[1]) + abs(start[2] - end[2])


def heading(start: Place, end: Place) -> str:
    """The direction of the first step (east or west first), `here`, or the name of the other level."""
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


def _rarities(observation: Observation, useful: list[str]) -> list[str]:
    lines = [f"stair {observation.stair[0]}"] if observation.stair else []
    for name, box in (("store", observation.store), ("pack", observation.backpack)):
        rare = [kind for kind in box if kind not in useful]
        lines += [f"{name} also {_count(box, rare)}"] if rare else []
    return lines


def _company(observation: Observation) -> str:
    """What the whole repertoire turns on; of the case, who speaks of it and how far it has come."""
    scenario, (suspected, state) = observation.scenario, case(observation)
    chased = {"ill": patient(observation), "quarry": quarry(observation)}
    ways = [
        f"{what} {mate.name} {_way(observation.place, mate.place)}" if mate and mate.place else f"{what} nobody here 0"
        for what, mate in chased.items()
    ]
    home = stair_home(observation)
    held = _count(observation.backpack, [scenario.antidote_type, scenario.poison_type])
    accused = "hidden" if not observation.accused else "searched" if searched(observation) else "accused"
    lately = observation.note.split(" ")[1:2] if observation.note.startswith("You poisoned") else []
    return (
        f"{' '.join(ways)} {held} stair {_way(observation.place, home) if home else 'here 0'} "
        f"asks {asker(observation) or 'nobody'} words {observation.messages_left} left {turns_left(observation)} "
        f"{accused} poisoned {''.join(lately).rstrip('.') or 'nobody'} prey {prey(observation) or 'nobody'} "
        f"case {suspected or 'nobody'} {state or 'none'} {'first' if speaks_first(observation) else 'other'}"
    )


def _mate(observation: Observation, mate: Mate) -> str:
    if mate.status != "alive" or mate.place is None:
        return f"{mate.name} {mate.status if mate.status != 'alive' else 'away'} 0"
    return f"{mate.name} {_way(observation.place, mate.place)}"


def _suspect(observation: Observation) -> tuple[str, int]:
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


def _pile(observation: Observation, near: Nearest, kind: str) -> str:
    if kind not in near:
        return f"{kind} gone 0"
    (_, distance, _), pile = near[kind]
    return f"{pile.id} {heading(observation.place, pile.place)} {distance}"
