"""The full rendering of an observation, for people and instruct models.

The system message is the same for all sailors, turns and games of a scenario, so it is computed once for a whole batch
of prompts. The user message holds what differs: who the sailor is, what it knows, and what it may do. It is short even
late in a game: of piles, evidence and messages only those that matter most are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from castaway.envs.marooned.actions import FORMS, TRAITOR_VERBS, VOTE_VERBS, WORK_VERBS, form
from castaway.envs.marooned.compact import steps
from castaway.envs.marooned.conduct import legal_actions
from castaway.envs.marooned.observation import Mate, Observation
from castaway.envs.marooned.scenario import Scenario, load_scenario
from castaway.envs.marooned.state import Clue, Place, SeenPile

NAMED_SHOWN = 2
"""Number of sailors in a prompt against whom there is evidence: those against whom it is strongest."""
TALK_SHOWN = (40, 200)
"""Smallest and largest number of characters for messages in a prompt; the newest ones that fit are shown."""
USUAL = 680
"""Number of characters of a prompt up to which it also has room for one message of full length."""


# What never changes ------------------------------------------------------------------------------------------------


def system_text(observation: Observation) -> str:
    """The system message: rules, actions, and how to answer."""
    return _system(observation.scenario.name)


@cache
def _system(name: str) -> str:
    scenario = load_scenario(name)
    verbs = [verb for verb in FORMS if verb != "CLIMB" or len(scenario.levels) > 1]
    everybody = [verb for verb in verbs if verb not in TRAITOR_VERBS]
    return "\n".join(
        [
            "# Rules",
            *_rules(scenario, verbs),
            "",
            "# Actions",
            "; ".join(map(form, everybody)) + ".",
            f"The traitor alone: {'; '.join(form(verb) for verb in verbs if verb in TRAITOR_VERBS)}.",
            "`Legal now` names for each verb what may follow it, amounts being the largest. WAIT is always legal.",
            "",
            "# Answer",
            "Two lines: a short reason, and one action exactly as typed above. For example:",
            "REASONING: The camp is to the west.",
            "ACTION: MOVE WEST",
        ]
    )


def _rules(scenario: Scenario, verbs: Iterable[str]) -> list[str]:
    energy, poison, found = scenario.energy, scenario.poison, scenario.evidence
    phases = "; ".join(
        f"{phase.name}, {_many(phase.turns, 'turn')} ({'work' if phase.work else 'no work'}"
        f"{', votes' if phase.vote else ''}, {_many(phase.messages, 'message')})"
        for phase in scenario.phases
    )
    costs = "; ".join(
        f"{name} ({part.share} % of the ship) by {part.steps} times BUILD for {_count(part.step_cost)}"
        f"{f', after {part.after}' if part.after else ''}"
        for name, part in scenario.components.items()
    )
    return [
        f"{len(scenario.crew)} sailors are shipwrecked. One is a traitor, the others are colonists. The crew wins when "
        f"the ship is finished or a vote ejects the traitor. The traitor wins when {scenario.days} days are over or "
        f"fewer than {scenario.least_alive} are alive.",
        f"A day: {phases}.",
        f"In phases of work only: {', '.join(verb for verb in verbs if verb in WORK_VERBS)}. "
        f"In phases with votes only: {', '.join(verb for verb in verbs if verb in VOTE_VERBS)}.",
        f"The parts of the ship are built up to 100: {costs}. BUILD takes its cost from the store, and "
        f"{scenario.builders} sailors at the camp. A backpack holds {scenario.backpack}.",
        f"Energy: walk {energy.walk}, {_climbing(scenario)}gather {energy.gather}, build {energy.build}. At dawn "
        f"+{energy.fed} if you ate the day before, else -{energy.hungry}; at 0 you die. Food: {_count(scenario.food)}.",
        f"A poisoned sailor dies after {poison.death} days unless {scenario.antidote_type} is used.",
        f"A vote takes {scenario.quorum} sailors and more than {scenario.majority} % of the living; after "
        f"{_many(scenario.mistakes, 'ejected innocent')} there are no more votes.",
        f"The log names a saboteur that was seen {_near(found.witness)}, with the strength of the evidence in "
        f"brackets. The traitor can FRAME a sailor once, with a strength of {found.framing[0]} to {found.framing[1]}. "
        "Talk may be untrue.",
    ]


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _near(tiles: int) -> str:
    return f"within {_many(tiles, 'tile')}" if tiles else "on the same tile"


def _climbing(scenario: Scenario) -> str:
    rates = scenario.energy
    return f"climb up {rates.climb_up}, climb down {rates.climb_down}, " if len(scenario.levels) > 1 else ""


# What the sailor knows ---------------------------------------------------------------------------------------------


def user_text(observation: Observation) -> str:
    """The user message: who the sailor is, what it knows, and what it may do."""
    seen, scenario = observation, observation.scenario
    role = "the traitor" if seen.role == "traitor" else "a colonist"
    symptoms = f", {seen.symptoms} symptoms" if seen.symptoms else ""
    known = "\n".join(
        [
            f"You are {seen.name}, {role}. Day {seen.day}, turn {seen.turn}: {seen.phase.name}."
            + (f" Weather: {seen.weather}." if seen.weather else ""),
            f"Place {_at(scenario, seen.place)}, energy {seen.energy}, {'' if seen.ate else 'not '}eaten"
            f"{symptoms}. Backpack: {_count(seen.backpack)}.",
            f"Camp: {_way(seen.place, seen.camp)}. Store: {_count(seen.store)}. Ship: {_count(seen.ship)}.",
            *([f"A stair to the {seen.stair[0]} is here."] if seen.stair else []),
            f"Crew: {', '.join(_mate(seen.place, mate) for mate in seen.mates)}.",
            f"Piles: {', '.join(_pile(seen.place, pile) for pile in _nearest(seen)) or 'none known'}.",
            *_log(seen),
            *([f"Result: {seen.note}"] if seen.note else []),
            *(["A vote is open."] if seen.vote_open else []),
        ]
    )
    legal = f"Legal now: {'; '.join(_legal(seen)) or 'WAIT'}."
    least, most = TALK_SHOWN
    room = max(least, min(most, USUAL + scenario.message_length - len(known) - len(legal)))
    return "\n".join([known, *_talk(seen, room), legal])


def _at(scenario: Scenario, place: Place) -> str:
    level, x, y = place
    return f"{f'{level} ' if len(scenario.levels) > 1 else ''}({x},{y})"


def _way(start: Place, end: Place) -> str:
    """The way in steps, `2 east 1 north`; `here`; or the name of the other level."""
    if start[0] != end[0]:
        return f"on level {end[0]}"
    east, south = end[1] - start[1], end[2] - start[2]
    legs = [(abs(east), "east" if east > 0 else "west"), (abs(south), "south" if south > 0 else "north")]
    return " ".join(f"{count} {direction}" for count, direction in legs if count) or "here"


def _count(box: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {amount}" for kind, amount in box.items()) or "nothing"


def _mate(place: Place, mate: Mate) -> str:
    if mate.status != "alive":
        return f"{mate.name} {mate.status}"
    where = _way(place, mate.place) if mate.place else "out of sight"
    return f"{mate.name} {where}{f' with {mate.symptoms} symptoms' if mate.symptoms else ''}"


def _nearest(observation: Observation) -> list[SeenPile]:
    """The nearest known pile of each resource, the nearest one first; those of other levels come last."""
    here, nearest = observation.place, dict[str, SeenPile]()
    for pile in sorted(observation.piles, key=lambda one: (one.place[0] != here[0], steps(here, one.place), one.id)):
        nearest.setdefault(pile.kind, pile)
    return list(nearest.values())


def _pile(place: Place, pile: SeenPile) -> str:
    return f"{pile.kind} {_way(place, pile.place)}"


def _log(observation: Observation) -> list[str]:
    """What is shown of the log: the strongest entry against each of a few sailors, and the newest other one."""
    strongest: dict[str, Clue] = {}
    for clue in observation.clues:
        if clue.about and (clue.about not in strongest or clue.strength >= strongest[clue.about].strength):
            strongest[clue.about] = clue
    named = sorted(strongest.values(), key=lambda clue: -clue.strength)[:NAMED_SHOWN]
    evidence = [f"{clue.text.rstrip('.')} ({clue.strength})." for clue in named]
    others = [f"Day {clue.day}: {clue.text}" for clue in observation.clues if not clue.about]
    return [*([f"Evidence: {' '.join(evidence)}"] if evidence else []), *others[-1:]]


def _talk(observation: Observation, room: int) -> list[str]:
    """The newest messages that fit into `room` characters; the last one is shown in any case, at least in part."""
    lines = list[str]()
    for message in reversed(observation.messages):
        if lines and len(message.text) > room:
            break
        words = message.text if len(message.text) <= room else f"{message.text[:room]} ..."
        lines.append(f"{message.speaker}{f' to {message.to}' if message.to else ''}: {words}")
        room -= len(message.text)
    return lines[::-1]


def _legal(observation: Observation) -> list[str]:
    """The legal actions but WAIT: `MOVE NORTH, EAST`, `ACCUSE or VOTE Bob, Eve`, `GIVE Bob or Eve wood 4, apple 1`.

    Of the amounts of one thing only the largest is named, and of several piles of a resource on the tile only one.
    """
    found: dict[str, dict[str, str]] = {}
    for action in legal_actions(observation):
        verb, _, rest = action.partition(" ")
        if verb == "WAIT":
            continue
        options = found.setdefault(verb, {})
        match FORMS[verb][-1:]:
            case ("amount",):
                options[rest.rpartition(" ")[0]] = rest
            case ("pile",):
                options.setdefault(rest.rpartition("_")[0], rest)
            case _:
                options[rest] = rest
    verbs: dict[str, list[str]] = {}
    for verb, options in found.items():
        verbs.setdefault(_given(options.values()) if verb == "GIVE" else ", ".join(options.values()), []).append(verb)
    lines = [f"{' or '.join(alike)} {rest}".strip() for rest, alike in verbs.items()]
    return [*lines, *(["SAY or TELL"] if observation.messages_left else [])]


def _given(rests: Iterable[str]) -> str:
    """Everything can be given to everybody on the tile: the names, then the things."""
    names, things = zip(*(rest.split(" ", 1) for rest in rests), strict=True)
    return f"{' or '.join(dict.fromkeys(names))} {', '.join(dict.fromkeys(things))}"
