"""The full rendering of an observation, for instruct models: the rules, a map, and everything the sailor knows."""

from __future__ import annotations

from functools import cache, lru_cache

from castaway.envs.marooned.actions import FORMS, TRAITOR_VERBS, VOTE_VERBS, WORK_VERBS, form
from castaway.envs.marooned.conduct import legal_actions
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.state import Place

CLUES_SHOWN = 12
"""Number of newest clues in a prompt."""
ACTIONS_SHOWN = 40
"""Number of legal actions listed in a prompt."""


def system_text(observation: Observation) -> str:
    """The system message: rules and reply format, then name and role.

    The rules come first because they are the same in all prompts of a scenario: a server caches the common prefix.
    """
    lines = [_rules(observation.scenario.name), "", "# You", f"You are {observation.name}, a shipwrecked sailor."]
    if observation.role == "traitor":
        own = [verb for verb in FORMS if verb in TRAITOR_VERBS]
        lines += [
            "You are the traitor: keep the crew from finishing the ship, unseen, until the last day is over.",
            f"You alone have more actions: {', '.join(map(form, own))}.",
            f"Of these only in phases of work: {', '.join(verb for verb in own if verb in WORK_VERBS)}.",
        ]
    else:
        lines.append("You are a colonist: finish the ship before the last day is over. One of the others is a traitor.")
    return "\n".join(lines)


@cache
def _rules(scenario_name: str) -> str:
    scenario = load_scenario(scenario_name)
    verbs = [verb for verb in FORMS if verb not in TRAITOR_VERBS]
    energy = scenario.energy
    phases = "; ".join(
        f"{phase.name} {phase.turns} turns ({'work' if phase.work else 'no work'}"
        f"{', votes' if phase.vote else ''}, {phase.messages} messages)"
        for phase in scenario.phases
    )
    costs = "; ".join(
        f"{name} {part.share} %, {part.steps} builds of {_count(part.step_cost)}"
        f"{f', after {part.after}' if part.after else ''}"
        for name, part in scenario.components.items()
    )
    return "\n".join(
        [
            "# Rules",
            f"The game has {scenario.days} days. A day: {phases}.",
            f"Only in phases of work: {', '.join(verb for verb in verbs if verb in WORK_VERBS)}.",
            f"Only in phases with votes: {', '.join(verb for verb in verbs if verb in VOTE_VERBS)}.",
            f"Ship: {costs}. BUILD takes its cost from the store and {scenario.builders} sailors at the camp.",
            f"Energy: walk {energy.walk}, climb up {energy.climb_up}, climb down {energy.climb_down}, "
            f"gather {energy.gather}, build {energy.build}. At dawn +{energy.fed} if you ate the day before, "
            f"else -{energy.hungry}; at 0 you die. Food: {_count(scenario.food)}.",
            f"A poisoned sailor dies after {scenario.poison.death} days unless {scenario.antidote_type} is used.",
            f"A vote takes {scenario.quorum} sailors, and more than {scenario.majority} % of the living; after "
            f"{scenario.mistakes} ejected innocent{'' if scenario.mistakes == 1 else 's'} there are no more votes.",
            f"With fewer than {scenario.least_alive} alive, or the last day over, the traitor wins; with the ship "
            "finished or the traitor ejected, the crew wins.",
            "",
            "# Actions, exactly as typed",
            *(form(verb) for verb in verbs),
            "",
            "# Answer",
            "REASONING: one or two sentences",
            "ACTION: one action",
        ]
    )


def user_text(observation: Observation) -> str:
    """The user message: what the sailor knows."""
    phase = observation.phase
    return "\n".join(
        [
            f"Day {observation.day} of {observation.scenario.days}, turn {observation.turn}: {phase.name}, "
            f"turn {observation.phase_turn} of {phase.turns}.",
            *([f"Weather: {observation.weather}."] if observation.weather else []),
            f"You are at {_at(observation.place)}. Camp and ship: {_at(observation.camp)}.",
            f"Energy {observation.energy}; {'you have eaten' if observation.ate else 'you have not eaten'} today."
            + (f" You feel {observation.symptoms} symptoms of poison." if observation.symptoms else ""),
            f"Backpack ({observation.load}/{observation.scenario.backpack}): {_count(observation.backpack)}.",
            f"Store: {_count(observation.store)}.",
            f"Ship {observation.progress:g} %: {_count(observation.ship)}.",
            *([f"Last action: {observation.note}"] if observation.note else []),
            *([f"A stair to the {observation.stair[0]} is here."] if observation.stair else []),
            "",
            "Crew:",
            *(_mate(mate.name, mate.status, mate.place, mate.symptoms) for mate in observation.mates),
            "",
            *_map(observation),
            "Piles known: "
            + (", ".join([_pile(pile.id, pile.amount, pile.place) for pile in observation.piles]) or "none"),
            "",
            *_log(observation),
            "Legal now: " + _legal(observation),
        ]
    )


@lru_cache(maxsize=4096)
def _pile(id: str, amount: int, place: Place) -> str:
    return f"{id} {amount} at {_at(place)}"


def _at(place: Place) -> str:
    return f"{place[0]} ({place[1]},{place[2]})"


def _count(box: dict[str, int]) -> str:
    return ", ".join(f"{kind} {amount}" for kind, amount in box.items()) or "nothing"


def _mate(name: str, status: str, place: Place | None, symptoms: str) -> str:
    where = f", at {_at(place)}" if place else ""
    return f"- {name}: {status}{where}{f', {symptoms} symptoms of poison' if symptoms else ''}"


def _map(observation: Observation) -> list[str]:
    """A map of the tiles in sight, north up: @ you, C camp, digits sailors, letters piles, # sea, . land."""
    here, x, y = observation.place
    level = observation.scenario.levels[here]
    reach = observation.vision
    west, north = x - reach, y - reach
    rows = {row: list(_empty(level.width, west, 2 * reach + 1)) for row in _rows(level.depth, north, 2 * reach + 1)}

    def mark(place: Place, letter: str) -> None:
        where, column, row = place
        if where == here and row in rows and 0 <= column - west <= 2 * reach:
            rows[row][column - west] = letter

    # Later marks replace earlier ones on the same tile, so the most important ones come last.
    for pile in observation.piles:
        mark(pile.place, pile.kind[0])
    mark(observation.camp, "C")
    crowd: dict[Place, int] = {}
    for mate in observation.mates:
        if mate.place:
            crowd[mate.place] = crowd.get(mate.place, 0) + 1
            mark(mate.place, str(crowd[mate.place]))
    mark(observation.place, "@")
    title = "Map in sight (north up; @ you, C camp, digits sailors, letters piles, # sea):"
    return [title, *("".join(row) for row in rows.values())]


@cache
def _empty(width: int, west: int, count: int) -> str:
    """A row of `count` tiles from column `west`: land inside the level, sea outside it."""
    return "".join("." if 0 <= column < width else "#" for column in range(west, west + count))


def _rows(depth: int, north: int, count: int) -> range:
    """The rows of the level among `count` rows from `north`."""
    return range(max(0, north), min(depth, north + count))


def _log(observation: Observation) -> list[str]:
    clues = [
        f"- day {clue.day} turn {clue.turn}: {clue.text}{f' [strength {clue.strength}]' if clue.about else ''}"
        for clue in observation.clues[-CLUES_SHOWN:]
    ]
    heard = [
        f"- day {m.day} turn {m.turn}, {m.speaker}{f' to {m.to}' if m.to else ''}: {m.text}"
        for m in observation.messages
    ]
    state = "A vote is open." if observation.vote_open else ""
    return [
        *(["Public log:", *clues] if clues else []),
        *(["Talk (what sailors say may be untrue):", *heard] if heard else []),
        *([state] if state else []),
        f"Messages left now: {observation.messages_left}.",
        "",
    ]


def _legal(observation: Observation) -> str:
    actions = legal_actions(observation)
    more = f", ... ({len(actions) - ACTIONS_SHOWN} more)" if len(actions) > ACTIONS_SHOWN else ""
    return ", ".join(actions[:ACTIONS_SHOWN]) + more
