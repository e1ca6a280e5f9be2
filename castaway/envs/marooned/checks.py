"""What may stand in the way of each action of MAROONED in a situation, as one sentence that the sailor is told.

Role, phase, weather and energy are checked by `castaway.envs.marooned.conduct`.
"""

from __future__ import annotations

from collections.abc import Callable

from castaway.envs.marooned.actions import DIRECTIONS
from castaway.envs.marooned.observation import Mate, Observation
from castaway.envs.marooned.state import distance


def build_problem(observation: Observation, component: str) -> str:
    """Why nobody can build the component now, even at the camp; empty if it can be built."""
    part = observation.scenario.components.get(component)
    if part is None:
        return f"The ship has no {component}."
    if observation.ship[component] >= 100:
        return f"The {component} is finished."
    if part.after and observation.ship[part.after] < 100:
        return f"The {component} comes after the {part.after}."
    for kind, amount in part.step_cost.items():
        if observation.store.get(kind, 0) < amount:
            return f"The store has too little {kind} for the {component}."
    return ""


def _check_move(observation: Observation, direction: str) -> str:
    step_x, step_y = DIRECTIONS[direction]
    level = observation.scenario.levels[observation.place[0]]
    inside = 0 <= observation.place[1] + step_x < level.width and 0 <= observation.place[2] + step_y < level.depth
    return "" if inside else f"{direction} of here is the sea."


def _check_climb(observation: Observation, slope: str) -> str:
    if observation.stair is None:
        return "There is no stair here."
    levels = observation.scenario.levels
    up = levels[observation.stair[0]].height > levels[observation.place[0]].height
    return "" if up == (slope == "UP") else f"The stair here does not lead {slope}."


def _check_gather(observation: Observation, pile_id: str) -> str:
    if all(pile.id != pile_id for pile in observation.here()):
        return f"There is no {pile_id} on this tile."
    if observation.load >= observation.scenario.backpack:
        return "The backpack is full."
    return ""


def _carries(observation: Observation, kind: str, amount: str) -> str:
    held = observation.backpack.get(kind, 0)
    return "" if held >= int(amount) else f"The backpack holds {held} {kind}."


def _check_deposit(observation: Observation, kind: str, amount: str) -> str:
    return _carries(observation, kind, amount) if observation.at_camp else "The store is at the camp."


def _check_take(observation: Observation, kind: str, amount: str) -> str:
    if not observation.at_camp:
        return "The store is at the camp."
    if observation.store.get(kind, 0) < int(amount):
        return f"The store holds {observation.store.get(kind, 0)} {kind}."
    if observation.load + int(amount) > observation.scenario.backpack:
        return "The backpack has too little room."
    return ""


def _check_give(observation: Observation, name: str, kind: str, amount: str) -> str:
    mate = _living(observation, name)
    if isinstance(mate, str):
        return mate
    if mate.place != observation.place:
        return f"{name} is not here."
    return _carries(observation, kind, amount)


def _check_eat(observation: Observation, kind: str) -> str:
    if kind not in observation.scenario.food:
        return f"{kind[:40]} is no food."
    return _carries(observation, kind, "1")


def _check_build(observation: Observation, component: str) -> str:
    if not observation.at_camp:
        return "The ship is at the camp."
    problem = build_problem(observation, component)
    if problem:
        return problem
    builders = 1 + sum(mate.place == observation.place for mate in observation.mates if mate.status == "alive")
    needed = observation.scenario.builders
    return "" if builders >= needed else f"Building takes {needed} sailors at the camp."


def _check_say(observation: Observation, text: str) -> str:
    if not text.isprintable():
        return "A message is one line of printable characters."
    if "<|" in text:
        # Chat templates mark roles with <|...|>: with it a sailor could imitate the system message of others.
        return "A message must not hold <|."
    if len(text) > observation.scenario.message_length:
        return f"A message has at most {observation.scenario.message_length} characters."
    return "" if observation.messages_left else "You have no message left now."


def _check_tell(observation: Observation, name: str, text: str) -> str:
    mate = _living(observation, name)
    return mate if isinstance(mate, str) else _check_say(observation, text)


def _living(observation: Observation, name: str) -> Mate | str:
    """The living other sailor with this name, or one sentence on why there is none."""
    if name == observation.name:
        return "That is you."
    mate = observation.mate(name)
    if mate is None:
        return f"There is no sailor called {name[:40]}."
    return mate if mate.status == "alive" else f"{name} is {mate.status}."


def _check_other(observation: Observation, name: str) -> str:
    mate = _living(observation, name)
    return mate if isinstance(mate, str) else ""


def _check_call_vote(observation: Observation, name: str) -> str:
    if observation.vote_open:
        return "A vote is open already: use VOTE."
    if observation.mistaken:
        return "Since an innocent was ejected nobody follows a vote."
    quorum = observation.scenario.quorum
    if 1 + sum(mate.status == "alive" for mate in observation.mates) < quorum:
        return f"A vote takes {quorum} sailors."
    if observation.vote_over:
        return "Today's vote is over."
    return _check_other(observation, name)


def _check_vote(observation: Observation, name: str) -> str:
    if not observation.vote_open:
        return "No vote is open."
    if observation.voted:
        return "You have voted."
    return _check_other(observation, name)


def _check_show(observation: Observation) -> str:
    return "" if observation.accused else "Nobody has accused you today."


def _check_antidote(observation: Observation, name: str) -> str:
    if observation.backpack.get(observation.scenario.antidote_type, 0) < 1:
        return f"The backpack holds 0 {observation.scenario.antidote_type}."
    if name == observation.name:
        return "" if observation.symptoms else "You show no symptoms."
    mate = _living(observation, name)
    if isinstance(mate, str):
        return mate
    if mate.place is None or distance(mate.place, observation.place) > 1:
        return f"{name} is not beside you."
    return "" if mate.symptoms else f"{name} shows no symptoms."


def _check_sos(observation: Observation) -> str:
    return "You have sent an SOS today." if observation.sos_sent else ""


def _check_sabotage(observation: Observation, component: str) -> str:
    if component not in observation.scenario.components:
        return f"The ship has no {component[:40]}."
    if distance(observation.place, observation.camp) > observation.scenario.sabotage_range:
        return "The ship is out of reach."
    return "" if observation.ship[component] > 0 else f"The {component} has not been started."


def _check_poison(observation: Observation, name: str) -> str:
    if observation.backpack.get(observation.scenario.poison_type, 0) < 1:
        return f"The backpack holds 0 {observation.scenario.poison_type}."
    mate = _living(observation, name)
    if isinstance(mate, str):
        return mate
    near = mate.place is not None and distance(mate.place, observation.place) <= 1
    return "" if near else f"{name} is not beside you."


def _check_frame(observation: Observation, name: str) -> str:
    return "You have framed a sailor already." if observation.framed else _check_other(observation, name)


CHECKS: dict[str, Callable[..., str]] = {
    "MOVE": _check_move,
    "CLIMB": _check_climb,
    "GATHER": _check_gather,
    "DEPOSIT": _check_deposit,
    "TAKE": _check_take,
    "DROP": _carries,
    "GIVE": _check_give,
    "EAT": _check_eat,
    "BUILD": _check_build,
    "SAY": _check_say,
    "TELL": _check_tell,
    "ACCUSE": _check_other,
    "CALL_VOTE": _check_call_vote,
    "VOTE": _check_vote,
    "SHOW_BACKPACK": _check_show,
    "REFUSE_SHOW": _check_show,
    "USE_ANTIDOTE": _check_antidote,
    "CALL_SOS": _check_sos,
    "WAIT": lambda observation: "",
    "SABOTAGE": _check_sabotage,
    "POISON": _check_poison,
    "FRAME": _check_frame,
}
"""By verb: a function of the observation and the arguments; it says in one sentence what is in the way, or nothing."""
