"""The rules of MAROONED: which actions a sailor may take now, decided from its own observation alone.

The engine, the teacher and the scripted sailors all use this module, so a refusal can never depend on hidden state.
"""

from __future__ import annotations

from collections.abc import Iterator

from castaway.envs.marooned.actions import (
    DIRECTIONS,
    FORMS,
    TRAITOR_VERBS,
    VOTE_VERBS,
    WORK_VERBS,
    Action,
    form,
    parse_action,
)
from castaway.envs.marooned.checks import CHECKS
from castaway.envs.marooned.observation import Observation
from castaway.tasks.environment import Refusal


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
    """Why the sailor may not take this action now, or None if it may."""
    return _barred(observation, action.verb) or _objection(observation, action)


def _barred(observation: Observation, verb: str) -> Refusal | None:
    """Why this role cannot use the verb at all in this phase and weather, or None."""
    if verb in TRAITOR_VERBS and observation.role != "traitor":
        return Refusal("forbidden", f"Only the traitor can {verb}.")
    if verb in WORK_VERBS and not observation.phase.work:
        return Refusal("forbidden", f"{verb} is not possible in the {observation.phase.name}.")
    if verb in WORK_VERBS and observation.weather == "storm":
        return Refusal("forbidden", f"{verb} is not possible in a storm.")
    if verb in VOTE_VERBS and not observation.phase.vote:
        return Refusal("forbidden", f"{verb} is only possible in a discussion.")
    return None


def _objection(observation: Observation, action: Action) -> Refusal | None:
    """Why the action is impossible in this situation, or None."""
    sentence = CHECKS[action.verb](observation, *action.arguments)
    if sentence:
        return Refusal("impossible", sentence)
    cost = energy_cost(observation, action)
    if cost > observation.energy:
        return Refusal("impossible", f"{action.verb} costs {cost} energy and you have {observation.energy} energy.")
    return None


def energy_cost(observation: Observation, action: Action) -> int:
    """Energy that the action costs, rounded up; work costs the traitor less."""
    energy = observation.scenario.energy
    match action.verb:
        case "MOVE":
            cost = energy.walk
        case "GATHER":
            cost = energy.gather
        case "BUILD":
            cost = energy.build
        case "CLIMB":
            cost = energy.climb_up if action.arguments[0] == "UP" else energy.climb_down
        case _:
            return 0
    rules = observation.scenario.weather
    if rules is not None and observation.weather in ("rain", "clear"):
        percent = rules.rain_cost if observation.weather == "rain" else rules.clear_cost
        cost = -(-cost * percent // 100)
    if observation.role == "traitor":
        cost = -(-cost * (100 - energy.traitor_discount) // 100)
    return cost


def legal_actions(observation: Observation) -> tuple[str, ...]:
    """Every legal action except SAY and TELL, as typed, in a fixed order; messages are free text."""
    found: list[str] = []
    for verb, kinds in FORMS.items():
        if "text" in kinds or _barred(observation, verb):
            continue
        if kinds and kinds[-1] == "amount":
            found += _amounts(observation, verb, kinds)
        else:
            possible = [Action(verb, arguments) for arguments in _candidates(observation, kinds)]
            found += [str(action) for action in possible if _objection(observation, action) is None]
    return tuple(found)


def _amounts(observation: Observation, verb: str, kinds: tuple[str, ...]) -> Iterator[str]:
    """The legal actions of a verb that ends in a quantity.

    Testing each amount would be slow: if one unit is legal, so is every amount up to what is there and fits.
    """
    if verb in ("DEPOSIT", "TAKE") and not observation.at_camp:
        return
    source = observation.store if verb == "TAKE" else observation.backpack
    room = observation.scenario.backpack - observation.load
    near = [(mate.name,) for mate in observation.mates if mate.place == observation.place]
    for first in near if kinds[0] == "name" else [()]:
        for kind, most in source.items():
            if _objection(observation, Action(verb, (*first, kind, "1"))) is None:
                start = " ".join((verb, *first, kind))
                for amount in range(1, 1 + (min(most, room) if verb == "TAKE" else most)):
                    yield f"{start} {amount}"


def _candidates(observation: Observation, kinds: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Candidate arguments of these kinds: all legal ones, and some illegal ones."""
    if not kinds:
        return [()]
    match kinds[0]:
        case "direction":
            words = list(DIRECTIONS)
        case "slope":
            words = ["UP", "DOWN"]
        case "pile":
            words = [pile.id for pile in observation.here()]
        case "resource":
            words = list(observation.backpack)
        case "component":
            words = list(observation.scenario.components)
        case _:
            words = [*(mate.name for mate in observation.mates), observation.name]
    return [(word,) for word in words]
