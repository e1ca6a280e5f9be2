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

PILES_SHOWN = 8
"""Number of piles in a prompt, the nearest ones; those on the sailor's tile are always among what it may GATHER."""
NAMED_SHOWN, OTHERS_SHOWN = 3, 2
"""Number of entries of the log in a prompt: the strongest ones, each against another sailor; the newest others."""
MESSAGES_SHOWN = 2
"""Number of newest messages in a prompt."""
WORDS_SHOWN = 100
"""Number of characters of a message in a prompt."""


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
            "`Legal now` names what may follow each verb; amounts are the largest possible.",
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
        f"{phase.name} {phase.turns} turns ({'work' if phase.work else 'no work'}"
        f"{', votes' if phase.vote else ''}, {phase.messages} messages)"
        for phase in scenario.phases
    )
    costs = "; ".join(
        f"{name} {part.share} %, {part.steps} builds of {_count(part.step_cost)}"
        f"{f', after {part.after}' if part.after else ''}"
        for name, part in scenario.components.items()
    )
    return [
        f"{len(scenario.crew)} sailors are shipwrecked. One is a traitor, the others are colonists. The crew wins when the "
        f"ship is finished or a vote ejects the traitor. The traitor wins when {scenario.days} days are over or fewer than "
        f"{scenario.least_alive} are alive.",
        f"A day: {phases}.",
        f"In phases of work only: {', '.join(verb for verb in verbs if verb in WORK_VERBS)}. "
        f"In phases with votes only: {', '.join(verb for verb in verbs if verb in VOTE_VERBS)}.",
        f"Ship: {costs}. BUILD takes its cost from the store, and {scenario.builders} sailors at the camp.",
        f"Energy: walk {energy.walk}, {_climbing(scenario)}gather {energy.gather}, build {energy.build}. At dawn "
        f"+{energy.fed} if you ate the day before, else -{energy.hungry}; at 0 you die. Food: {_count(scenario.food)}.",
        f"A poisoned sailor dies after {poison.death} days unless {scenario.antidote_type} is used.",
        f"A vote takes {scenario.quorum} sailors and more than {scenario.majority} % of the living; after "
        f"{scenario.mistakes} ejected innocent{'' if scenario.mistakes == 1 else 's'} there are no more votes.",
        f"The log names a saboteur that was seen within {found.witness} tiles, with the strength of the evidence. The "
        f"traitor can FRAME a sailor once, with a strength of {found.framing[0]} to {found.framing[1]}. Talk may be untrue.",
    ]


def _climbing(scenario: Scenario) -> str:
    rates = scenario.energy
    return f"climb up {rates.climb_up}, climb down {rates.climb_down}, " if len(scenario.levels) > 1 else ""


# What the sailor knows ---------------------------------------------------------------------------------------------


def user_text(observation: Observation) -> str:
    """The user message: who the sailor is, what it knows, and what it may do."""
    seen, scenario = observation, observation.scenario
    role = "the traitor" if seen.role == "traitor" else "a colonist"
    meal = "you have eaten" if seen.ate else "not eaten"
    symptoms = f", {seen.symptoms} symptoms of poison" if seen.symptoms else ""
    return "\n".join(
        [
            f"You are {seen.name}, {role}. Day {seen.day} of {scenario.days}, turn {seen.turn} of "
            f"{scenario.turns_per_day}: {seen.phase.name}." + (f" Weather: {seen.weather}." if seen.weather else ""),
            f"You are at {_at(seen.place)}, energy {seen.energy}, {meal} today{symptoms}. "
            f"Backpack {seen.load} of {scenario.backpack}: {_count(seen.backpack)}.",
            f"Camp: {_way(seen.place, seen.camp)}. Store: {_count(seen.store)}. "
            f"Ship {seen.progress:g} %: {_count(seen.ship)}.",
            *([f"A stair to the {seen.stair[0]} is here."] if seen.stair else []),
            f"Crew: {', '.join(_mate(seen.place, mate) for mate in seen.mates)}.",
            f"Piles: {', '.join(_pile(seen.place, pile) for pile in _nearest(seen)) or 'none known'}.",
            *[f"Log, day {clue.day} turn {clue.turn}: {_entry(clue)}" for clue in _evidence(seen)],
            *[f"{m.speaker}{f' to {m.to}' if m.to else ''}: {_cut(m.text)}" for m in seen.messages[-MESSAGES_SHOWN:]],
            *([f"Your last action: {seen.note}"] if seen.note else []),
            *(["A vote is open."] if seen.vote_open else []),
            f"Legal now: {'; '.join(_legal(seen))}.",
        ]
    )


def _at(place: Place) -> str:
    return f"{place[0]} ({place[1]},{place[2]})"


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
    return f"{mate.name} {where}{f' with {mate.symptoms} symptoms of poison' if mate.symptoms else ''}"


def _nearest(observation: Observation) -> list[SeenPile]:
    """The nearest known piles, those of other levels last."""
    here = observation.place
    near = sorted(observation.piles, key=lambda pile: (pile.place[0] != here[0], steps(here, pile.place), pile.id))
    return near[:PILES_SHOWN]


def _pile(place: Place, pile: SeenPile) -> str:
    return f"{pile.id} {_way(place, pile.place)} ({pile.amount})"


def _evidence(observation: Observation) -> list[Clue]:
    """What is shown of the log, in its order: the strongest entry against each of a few sailors, and the newest others."""
    strongest: dict[str, Clue] = {}
    for clue in observation.clues:
        if clue.about and (clue.about not in strongest or clue.strength >= strongest[clue.about].strength):
            strongest[clue.about] = clue
    named = sorted(strongest.values(), key=lambda clue: clue.strength)[-NAMED_SHOWN:]
    others = [clue for clue in observation.clues if not clue.about][-OTHERS_SHOWN:]
    return [clue for clue in observation.clues if any(clue is shown for shown in (*named, *others))]


def _entry(clue: Clue) -> str:
    return f"{clue.text.rstrip('.')} (strength {clue.strength})." if clue.about else clue.text


def _cut(text: str) -> str:
    return text if len(text) <= WORDS_SHOWN else f"{text[:WORDS_SHOWN]} ..."


def _legal(observation: Observation) -> list[str]:
    """Each verb with what may follow it: `MOVE NORTH, EAST`, `GIVE Bob|Eve wood 4, apple 1`."""
    found: dict[str, dict[str, str]] = {}
    for action in legal_actions(observation):
        verb, _, rest = action.partition(" ")
        # Of the amounts of one thing the last and largest stays.
        thing = rest.rpartition(" ")[0] if FORMS[verb][-1:] == ("amount",) else rest
        found.setdefault(verb, {})[thing] = rest
    lines = [f"{verb} {_given(rests) if verb == 'GIVE' else ', '.join(rests)}".strip() for verb, rests in _lists(found)]
    left = observation.messages_left
    return [*lines, f"SAY or TELL ({left} left)"] if left else lines


def _lists(found: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    return [(verb, list(rests.values())) for verb, rests in found.items()]


def _given(rests: Iterable[str]) -> str:
    """Everything can be given to everybody on the tile: the names, then the things."""
    names, things = zip(*(rest.split(" ", 1) for rest in rests), strict=True)
    return f"{'|'.join(dict.fromkeys(names))} {', '.join(dict.fromkeys(things))}"
