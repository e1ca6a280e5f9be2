"""The typed actions, exactly what a sailor may write after `ACTION:`, and which of them are legal now.

An action has only one spelling: `parse_action(str(action)) == action` for every action, and a text that differs from it
in a single character is not an action. Legality is decided from the sailor's own observation alone; the engine, the
teacher and the scripted sailors all ask here, so a refusal can never depend on hidden state.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import distance
from castaway.tasks.environment import Refusal

DIRECTIONS: dict[str, tuple[int, int]] = {"NORTH": (0, -1), "SOUTH": (0, 1), "EAST": (1, 0), "WEST": (-1, 0)}
"""Direction to its step in (x, y), in tiles; y grows south."""

FORMS: dict[str, tuple[str, ...]] = {
    "MOVE": ("direction",),
    "CLIMB": ("slope",),
    "GATHER": ("pile",),
    "DEPOSIT": ("resource", "amount"),
    "TAKE": ("resource", "amount"),
    "DROP": ("resource", "amount"),
    "GIVE": ("name", "resource", "amount"),
    "EAT": ("resource",),
    "BUILD": ("component",),
    "SAY": ("text",),
    "TELL": ("name", "text"),
    "ACCUSE": ("name",),
    "CALL_VOTE": ("name",),
    "VOTE": ("name",),
    "SHOW_BACKPACK": (),
    "REFUSE_SHOW": (),
    "USE_ANTIDOTE": ("name",),
    "CALL_SOS": (),
    "WAIT": (),
    "SABOTAGE": ("component",),
    "POISON": ("name",),
    "FRAME": ("name",),
}
"""Verb to the kinds of its arguments, in the order in which they are written."""

TRAITOR_VERBS = frozenset({"SABOTAGE", "POISON", "FRAME"})
WORK_VERBS = frozenset({"MOVE", "CLIMB", "GATHER", "SABOTAGE", "POISON"})
VOTE_VERBS = frozenset({"ACCUSE", "CALL_VOTE", "VOTE", "SHOW_BACKPACK", "REFUSE_SHOW"})

_WORDS = {
    "direction": "NORTH|SOUTH|EAST|WEST",
    "slope": "UP|DOWN",
    "pile": "[A-Z][A-Z_]*_[0-9]{1,6}",
    "resource": "[a-z][a-z_]*",
    "amount": "[1-9][0-9]{0,5}",
    "name": "[A-Z][A-Za-z]*",
    "component": "[a-z][a-z_]*",
    "text": r"\S(?:[^\r\n]*\S)?",
}
_PATTERNS = {
    verb: re.compile(" ".join([verb, *(f"({_WORDS[kind]})" for kind in kinds)])) for verb, kinds in FORMS.items()
}


@dataclass(frozen=True, slots=True)
class Action:
    verb: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.verb, *self.arguments))


WAIT = Action("WAIT")


def form(verb: str) -> str:
    """The form of an action for people and models: `GIVE <name> <resource> <amount>`."""
    return " ".join([verb, *(f"<{kind}>" for kind in FORMS[verb])])


def parse_action(text: str) -> Action | None:
    """The action that `text` spells exactly, or None. Correcting the text is left to the teacher."""
    verb = text.split(" ", 1)[0]
    pattern = _PATTERNS.get(verb)
    match = pattern.fullmatch(text) if pattern else None
    return Action(verb, match.groups()) if match else None


def read(observation: Observation, text: str) -> tuple[Action | None, Refusal | None]:
    """The legal action that `text` spells, or the refusal; the other element is None."""
    action = parse_action(text)
    if action is None:
        verb = text.split(" ", 1)[0]
        if verb in FORMS:
            return None, Refusal("form", f"{verb} is typed {form(verb)}.")
        return None, Refusal("unknown", f"{verb[:40]!r} is not an action." if verb else "The action is empty.")
    refusal = refuse(observation, action)
    return (None, refusal) if refusal else (action, None)


def refuse(observation: Observation, action: Action) -> Refusal | None:
    return _barred(observation, action.verb) or _objection(observation, action)


def _barred(observation: Observation, verb: str) -> Refusal | None:
    if verb in TRAITOR_VERBS and observation.role != "traitor":
        return Refusal("forbidden", f"Only the traitor can {verb}.")
    if verb in WORK_VERBS and not observation.phase.work:
        return Refusal("forbidden", f"{verb} is not possible in the {observation.phase.name}.")
    if verb in VOTE_VERBS and not observation.phase.vote:
        return Refusal("forbidden", f"{verb} is only possible in a discussion.")
    return None


def _objection(observation: Observation, action: Action) -> Refusal | None:
    if sentence := _CHECKS[action.verb](observation, *action.arguments):
        return Refusal("impossible", sentence)
    if (cost := energy_cost(observation, action)) > observation.energy:
        return Refusal("impossible", f"{action.verb} costs {cost} energy and you have {observation.energy} energy.")
    return None


def energy_cost(observation: Observation, action: Action) -> int:
    """Energy that the action costs, rounded up; work costs the traitor less."""
    energy = observation.scenario.energy
    climb = energy.climb_up if action.arguments == ("UP",) else energy.climb_down
    cost = {"MOVE": energy.walk, "GATHER": energy.gather, "BUILD": energy.build, "CLIMB": climb}.get(action.verb, 0)
    return -(-cost * (100 - energy.traitor_discount) // 100) if observation.role == "traitor" else cost


def legal_actions(observation: Observation) -> tuple[str, ...]:
    """Every legal action except SAY and TELL, as typed, in a fixed order; messages are free text."""
    words: dict[str, Iterable[str]] = {
        "direction": DIRECTIONS,
        "slope": ("UP", "DOWN"),
        "pile": [pile.id for pile in observation.here()],
        "resource": observation.backpack,
        "component": observation.scenario.components,
        "name": [*(mate.name for mate in observation.mates), observation.name],
    }
    legal: list[str] = []
    for verb, kinds in FORMS.items():
        if "text" in kinds or _barred(observation, verb):
            continue
        if kinds[-1:] == ("amount",):
            legal += _amounts(observation, verb, kinds)
        else:
            possible = [Action(verb, (word,)) for word in words[kinds[0]]] if kinds else [Action(verb)]
            legal += [str(action) for action in possible if _objection(observation, action) is None]
    return tuple(legal)


def _amounts(observation: Observation, verb: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """Testing each amount would be slow: if one unit is legal, so is every amount up to what is there and fits."""
    if verb in ("DEPOSIT", "TAKE") and not observation.at_camp:
        return
    source = observation.store if verb == "TAKE" else observation.backpack
    room = observation.scenario.backpack - observation.load
    near = [(mate.name,) for mate in observation.mates if mate.place == observation.place]
    for first in near if kinds[0] == "name" else [()]:
        for kind, most in source.items():
            if _objection(observation, Action(verb, (*first, kind, "1"))) is None:
                for amount in range(1, 1 + (min(most, room) if verb == "TAKE" else most)):
                    yield " ".join((verb, *first, kind, str(amount)))


# What may stand in the way of an action, as one sentence that the sailor is told ----------------------------------


def build_problem(observation: Observation, component: str) -> str:
    part = observation.scenario.components.get(component)
    if part is None:
        return f"The ship has no {component}."
    if observation.ship[component] >= 100:
        return f"The {component} is finished."
    if part.after and observation.ship[part.after] < 100:
        return f"The {component} comes after the {part.after}."
    lacking = (kind for kind, amount in part.step_cost.items() if observation.store.get(kind, 0) < amount)
    return next((f"The store has too little {kind} for the {component}." for kind in lacking), "")


def _holds(observation: Observation, kind: str, amount: str = "1") -> str:
    held = observation.backpack.get(kind, 0)
    return "" if held >= int(amount) else f"The backpack holds {held} {kind}."


def _other(observation: Observation, name: str) -> str:
    if name == observation.name:
        return "That is you."
    mate = observation.mate(name)
    if mate is None:
        return f"There is no sailor called {name[:40]}."
    return "" if mate.status == "alive" else f"{name} is {mate.status}."


def _beside(observation: Observation, name: str) -> str:
    mate = observation.mate(name)
    near = mate and mate.place and distance(mate.place, observation.place) <= 1
    return _other(observation, name) or ("" if near else f"{name} is not beside you.")


def _move(observation: Observation, direction: str) -> str:
    step_x, step_y = DIRECTIONS[direction]
    level = observation.scenario.levels[observation.place[0]]
    inside = 0 <= observation.place[1] + step_x < level.width and 0 <= observation.place[2] + step_y < level.depth
    return "" if inside else f"{direction} of here is the sea."


def _climb(observation: Observation, slope: str) -> str:
    if observation.stair is None:
        return "There is no stair here."
    levels = observation.scenario.levels
    up = levels[observation.stair[0]].height > levels[observation.place[0]].height
    return "" if up == (slope == "UP") else f"The stair here does not lead {slope}."


def _gather(observation: Observation, pile_id: str) -> str:
    if all(pile.id != pile_id for pile in observation.here()):
        return f"There is no {pile_id} on this tile."
    return "The backpack is full." if observation.load >= observation.scenario.backpack else ""


def _build(observation: Observation, component: str) -> str:
    if not observation.at_camp:
        return "The ship is at the camp."
    builders = 1 + sum(mate.place == observation.place for mate in observation.mates if mate.status == "alive")
    needed = observation.scenario.builders
    few = "" if builders >= needed else f"Building takes {needed} sailors at the camp."
    return build_problem(observation, component) or few


def _deposit(observation: Observation, kind: str, amount: str) -> str:
    return _holds(observation, kind, amount) if observation.at_camp else "The store is at the camp."


def _take(observation: Observation, kind: str, amount: str) -> str:
    if not observation.at_camp:
        return "The store is at the camp."
    if observation.store.get(kind, 0) < int(amount):
        return f"The store holds {observation.store.get(kind, 0)} {kind}."
    return "The backpack has too little room." if observation.load + int(amount) > observation.scenario.backpack else ""


def _give(observation: Observation, name: str, kind: str, amount: str) -> str:
    mate = observation.mate(name)
    here = mate and mate.place == observation.place
    return _other(observation, name) or (_holds(observation, kind, amount) if here else f"{name} is not here.")


def _eat(observation: Observation, kind: str) -> str:
    return _holds(observation, kind) if kind in observation.scenario.food else f"{kind[:40]} is no food."


def _antidote(observation: Observation, name: str) -> str:
    if problem := _holds(observation, observation.scenario.antidote_type):
        return problem
    if name == observation.name:
        return "" if observation.symptoms else "You show no symptoms."
    mate = observation.mate(name)
    return _beside(observation, name) or ("" if mate and mate.symptoms else f"{name} shows no symptoms.")


def _say(observation: Observation, text: str) -> str:
    if not text.isprintable():
        return "A message is one line of printable characters."
    if "<|" in text:
        # Chat templates mark roles with <|...|>: with it a sailor could imitate the system message of others.
        return "A message must not hold <|."
    if len(text) > observation.scenario.message_length:
        return f"A message has at most {observation.scenario.message_length} characters."
    return "" if observation.messages_left else "You have no message left now."


def _call_vote(observation: Observation, name: str) -> str:
    if observation.vote_open:
        return "A vote is open already: use VOTE."
    if observation.mistaken:
        return "Since an innocent was ejected nobody follows a vote."
    quorum = observation.scenario.quorum
    if 1 + sum(mate.status == "alive" for mate in observation.mates) < quorum:
        return f"A vote takes {quorum} sailors."
    return "Today's vote is over." if observation.vote_over else _other(observation, name)


def _vote(observation: Observation, name: str) -> str:
    if not observation.vote_open:
        return "No vote is open."
    return "You have voted." if observation.voted else _other(observation, name)


def _show(observation: Observation) -> str:
    return "" if observation.accused else "Nobody has accused you today."


def _sabotage(observation: Observation, component: str) -> str:
    if component not in observation.scenario.components:
        return f"The ship has no {component[:40]}."
    if distance(observation.place, observation.camp) > observation.scenario.sabotage_range:
        return "The ship is out of reach."
    return "" if observation.ship[component] > 0 else f"The {component} has not been started."


_CHECKS: dict[str, Callable[..., str]] = {
    "MOVE": _move,
    "CLIMB": _climb,
    "GATHER": _gather,
    "DEPOSIT": _deposit,
    "TAKE": _take,
    "DROP": _holds,
    "GIVE": _give,
    "EAT": _eat,
    "BUILD": _build,
    "SAY": _say,
    "TELL": lambda seen, name, text: _other(seen, name) or _say(seen, text),
    "ACCUSE": _other,
    "CALL_VOTE": _call_vote,
    "VOTE": _vote,
    "SHOW_BACKPACK": _show,
    "REFUSE_SHOW": _show,
    "USE_ANTIDOTE": _antidote,
    "CALL_SOS": lambda seen: "You have sent an SOS today." if seen.sos_sent else "",
    "WAIT": lambda seen: "",
    "SABOTAGE": _sabotage,
    "POISON": lambda seen, name: _holds(seen, seen.scenario.poison_type) or _beside(seen, name),
    "FRAME": lambda seen, name: "You have framed a sailor already." if seen.framed else _other(seen, name),
}
"""By verb: a function of the observation and the arguments; it says in one sentence what is in the way, or nothing."""
