"""The full rendering of an observation, for people and instruct models.

The system message is the same for all sailors, turns and games of a scenario, so it is computed once for a whole batch
of prompts. The user message holds what differs: who the sailor is, what it knows, and what it may do. It is short even
late in a game: of piles, evidence and messages only those that matter most are shown.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from jinja2 import Template

from castaway.envs.marooned.actions import DIRECTIONS, FORMS, TRAITOR_VERBS, VOTE_VERBS, WORK_VERBS, form, legal_actions
from castaway.envs.marooned.compact import steps
from castaway.envs.marooned.observation import Mate, Observation
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.state import Clue, Place, SeenPile

NAMED_SHOWN = 2  # number of sailors in a prompt against whom there is evidence: those against whom it is strongest
TALK_SHOWN = (40, 200)  # least and most characters of messages in a prompt; the newest that fit are shown
USUAL = 680  # number of characters of a prompt up to which it also has room for one message of full length


def system_text(observation: Observation) -> str:
    return _system(observation.scenario.name, observation.scenario.turns)


@cache
def _system(name: str, turns: int | None) -> str:
    scenario = load_scenario(name, turns)
    verbs = [verb for verb in FORMS if verb != "CLIMB" or len(scenario.levels) > 1]
    text = (resources.files("castaway.envs.marooned") / "rules.jinja").read_text("utf-8")
    groups = {"traitor": TRAITOR_VERBS, "work": WORK_VERBS, "vote": VOTE_VERBS}
    return Template(text, trim_blocks=True).render(s=scenario, verbs=verbs, form=form, **groups).strip()


def user_text(observation: Observation) -> str:
    seen, scenario = observation, observation.scenario
    level, x, y = seen.place
    place = f"{level} ({x},{y})" if len(scenario.levels) > 1 else f"({x},{y})"
    piles = [f"{pile.kind} {_way(seen.place, pile.place)}" for pile in _nearest(seen)]
    meal = "eaten" if seen.ate else "not eaten"
    role = "the traitor" if seen.role == "traitor" else "a colonist"
    symptoms = f", {seen.symptoms} symptoms" if seen.symptoms else ""
    known = "\n".join(
        [
            f"You are {seen.name}, {role}. Day {seen.day}, turn {seen.turn}: {seen.phase.name}.",
            f"Place {place}, energy {seen.energy}, {meal}{symptoms}. Backpack: {_count(seen.backpack)}.",
            f"Camp: {_way(seen.place, seen.camp)}. Store: {_count(seen.store)}. Ship: {_count(seen.ship)}.",
            *([f"A stair to the {seen.stair[0]} is here."] if seen.stair else []),
            f"Crew: {', '.join(_mate(seen.place, mate) for mate in seen.mates)}.",
            f"Piles: {', '.join(piles) or 'none known'}.",
            *_log(seen),
            *([f"Result: {seen.note}"] if seen.note else []),
            *(["A vote is open."] if seen.vote_open else []),
        ]
    )
    legal = f"Legal now: {'; '.join(_legal(seen)) or 'WAIT'}."
    least, most = TALK_SHOWN
    room = max(least, min(most, USUAL + scenario.message_length - len(known) - len(legal)))
    return "\n".join([known, *_talk(seen, room), legal])


def _way(start: Place, end: Place) -> str:
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
    here, nearest = observation.place, dict[str, SeenPile]()
    for pile in sorted(observation.piles, key=lambda one: (one.place[0] != here[0], steps(here, one.place), one.id)):
        nearest.setdefault(pile.kind, pile)
    return list(nearest.values())


def _log(observation: Observation) -> list[str]:
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
    """The legal actions but WAIT: `ACCUSE or VOTE Bob, Eve`; of amounts only the largest, of alike piles only one."""
    by_verb: dict[str, dict[str, str]] = {}
    for action in legal_actions(observation):
        verb, _, rest = action.partition(" ")
        if verb == "WAIT":
            continue
        options = by_verb.setdefault(verb, {})
        match FORMS[verb][-1:]:
            case ("amount",):
                options[rest.rpartition(" ")[0]] = rest
            case ("pile",):
                options.setdefault(rest.rpartition("_")[0], rest)
            case _:
                options[rest] = rest
    verbs: dict[str, list[str]] = {}
    for verb, options in by_verb.items():
        verbs.setdefault(_given(options.values()) if verb == "GIVE" else ", ".join(options.values()), []).append(verb)
    lines = [f"{' or '.join(alike)} {rest}".strip() for rest, alike in verbs.items()]
    return [*lines, *(["SAY or TELL"] if observation.messages_left else [])]


def _given(rests: Iterable[str]) -> str:
    """Everything can be given to everybody on the tile: the names, then the things."""
    names, things = zip(*(rest.split(" ", 1) for rest in rests), strict=True)
    return f"{' or '.join(dict.fromkeys(names))} {', '.join(dict.fromkeys(things))}"


_SENTENCES = {
    "hungry": "I have to eat.",
    "store": "The store needs this.",
    "ready": "The material for it is in the store.",
    "unseen": "Nobody is near enough to see me.",
    "blame": "Somebody else shall be suspected.",
    "rest": "There is nothing to do.",
    "cure": "Somebody is poisoned.",
    "ill": "I am poisoned and have no herb.",
    "tell": "The others have to know.",
    "open": "I have nothing to hide.",
    "hide": "Nobody must see what I carry.",
    "share": "Somebody has no food.",
    "alone": "Nobody else is near.",
    "lull": "Nobody must suspect me.",
    "wander": "I have no plan.",
}


def in_words(aim: str) -> str:
    """The sentence for an aim: `camp EAST` is `The camp is to the east.`"""
    what, _, where = aim.rpartition(" ")
    if not what:
        return _SENTENCES.get(where, where)
    if what == "suspect":
        return f"The evidence is against {where}."
    thing = "place to search" if what == "search" else re.sub(r"_\d+$", "", what).lower()
    if where in DIRECTIONS:
        return f"The {thing} is to the {where.lower()}."
    return f"The {thing} is here." if where == "here" else f"The {thing} is on level {where}."
