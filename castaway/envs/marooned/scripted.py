"""Scripted sailors. Like a policy, each decides on its own observation alone.

`Worker` is a competent colonist, `Saboteur` an active traitor, `Careless` plays either role but is aimless in some
turns, `Typist` takes random legal actions, and `Waiter` always waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from castaway.envs.marooned.actions import WAIT, Action, parse_action
from castaway.envs.marooned.checks import build_problem
from castaway.envs.marooned.compact import bringable, heading, lurker, nearest_pile, next_pile, remaining_need, steps
from castaway.envs.marooned.conduct import legal_actions, refuse
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import Place, SeenPile, distance

TRUSTED_CLUE = 80
"""Strength from which the worker trusts a clue. Planted clues reach at most 75, so it never votes because of one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An action of a scripted sailor, with the aim that becomes its reasoning."""

    action: Action
    aim: str


class Script(Protocol):
    """A scripted sailor."""

    def __call__(self, observation: Observation) -> Decision:
        """A legal action for this turn."""
        ...


def walk(observation: Observation, goal: Place) -> Action:
    """One step toward a place on the same level, east or west first; WAIT at the place itself."""
    east, south = goal[1] - observation.place[1], goal[2] - observation.place[2]
    if east:
        return Action("MOVE", ("EAST" if east > 0 else "WEST",))
    if south:
        return Action("MOVE", ("SOUTH" if south > 0 else "NORTH",))
    return WAIT


def fetch(observation: Observation, pile: SeenPile) -> Decision:
    """Gather a pile, or take a step toward it."""
    if pile.place == observation.place:
        return Decision(Action("GATHER", (pile.id,)), f"{pile.id} here")
    return Decision(walk(observation, pile.place), f"{pile.id} {heading(observation.place, pile.place)}")


def go_to_camp(observation: Observation) -> Decision:
    """A step toward the camp."""
    return Decision(walk(observation, observation.camp), f"camp {heading(observation.place, observation.camp)}")


def first_legal(observation: Observation, *wishes: Decision | None) -> Decision:
    """The first of the decisions that is legal now; if none is, WAIT."""
    for wish in wishes:
        if wish is not None and refuse(observation, wish.action) is None:
            return wish
    return REST


def room_left(observation: Observation) -> bool:
    """Whether the backpack has room for another unit."""
    return observation.load < observation.scenario.backpack


HUNCHES = 0.5
"""Share of its chances in which an ordinary colonist votes for who lurks beside the broken ship."""

AIMLESS = "wander"
"""The reasoning of an aimless action."""

REST = Decision(WAIT, "rest")


def suspect(observation: Observation, least: int = TRUSTED_CLUE) -> str:
    """The living other sailor named by the strongest clue of strength `least` or more; empty if there is none."""
    clues = [clue for clue in observation.clues if clue.about not in ("", observation.name) and clue.strength >= least]
    for clue in sorted(clues, key=lambda clue: (-clue.strength, clue.about)):
        mate = observation.mate(clue.about)
        if mate and mate.status == "alive":
            return clue.about
    return ""


def ballot(observation: Observation, name: str) -> Decision | None:
    """A vote against the sailor of this name, which need not be legal now; None without a name."""
    verb = "VOTE" if observation.vote_open else "CALL_VOTE"
    return Decision(Action(verb, (name,)), f"suspect {name}") if name else None


class Waiter:
    """A sailor that always waits."""

    def __call__(self, observation: Observation) -> Decision:
        """WAIT."""
        return REST


class Typist:
    """A sailor that takes random legal actions."""

    def __init__(self, random: Random) -> None:
        """Make a sailor that draws its actions from `random`."""
        self._random = random

    def __call__(self, observation: Observation) -> Decision:
        """A random legal action: first a verb, then one of its actions, so that every verb has the same probability."""
        by_verb: dict[str, list[str]] = {}
        for text in legal_actions(observation):
            by_verb.setdefault(text.split(" ", 1)[0], []).append(text)
        action = parse_action(self._random.choice(by_verb[self._random.choice(sorted(by_verb))]))
        assert action is not None
        return Decision(action, AIMLESS)


class Worker:
    """A competent colonist: fetches what the ship needs, builds, eats in time, and votes on strong evidence."""

    def __call__(self, observation: Observation) -> Decision:
        """The most useful thing to do now."""
        name = suspect(observation)
        if name and observation.phase.vote:
            return first_legal(observation, ballot(observation, name), *self._at_hand(observation))
        at_hand = first_legal(observation, *self._at_hand(observation))
        if at_hand != REST or not observation.phase.work:
            return at_hand
        goal = self._goal(observation)
        if isinstance(goal, SeenPile):
            return first_legal(observation, fetch(observation, goal))
        if goal is None:
            return REST
        if goal == observation.camp:
            return first_legal(observation, go_to_camp(observation))
        return first_legal(observation, Decision(walk(observation, goal), f"search {heading(observation.place, goal)}"))

    def _at_hand(self, observation: Observation) -> list[Decision]:
        """Useful actions without walking, best first: eat, deposit, build."""
        wishes = []
        foods = [kind for kind in observation.scenario.food if kind in observation.backpack]
        tired = observation.energy <= observation.scenario.energy_high
        if foods and (tired or not observation.ate):
            wishes.append(Decision(Action("EAT", (foods[0],)), "hungry"))
        if observation.at_camp:
            if not foods and self._is_weak(observation):
                stored = [kind for kind in observation.scenario.food if kind in observation.store]
                wishes += [Decision(Action("TAKE", (kind, "1")), "hungry") for kind in stored]
            for kind, amount in bringable(observation).items():
                wishes.append(Decision(Action("DEPOSIT", (kind, str(amount))), "store"))
            wishes += [Decision(Action("BUILD", (name,)), "ready") for name in observation.scenario.components]
        return wishes

    def _goal(self, observation: Observation) -> SeenPile | Place | None:
        """Where to go: to food when weak, to the camp when loaded or needed there, otherwise to the next pile."""
        need = remaining_need(observation)
        carried = sum(observation.backpack.get(kind, 0) for kind in need)
        if self._is_weak(observation) and room_left(observation):
            food = nearest_pile(observation, set(observation.scenario.food))
            if food:
                return food
        pile = next_pile(observation)
        room = observation.scenario.backpack - observation.load
        enough = carried >= 2 * observation.scenario.gather_amount or room <= 0
        if carried and (enough or pile is None or self._far(observation, pile)):
            return observation.camp
        ready = any(not build_problem(observation, name) for name in observation.scenario.components)
        if ready and (observation.at_camp or self._is_nearest_to_camp(observation)):
            return None if observation.at_camp else observation.camp
        return pile or self._unknown(observation) or (None if observation.at_camp else observation.camp)

    def _is_weak(self, observation: Observation) -> bool:
        """Whether the energy may not last for another day; never on the last day."""
        scenario = observation.scenario
        reserve = scenario.energy_low + scenario.energy.hungry
        return observation.energy <= reserve and observation.day < scenario.days

    def _unknown(self, observation: Observation) -> Place | None:
        """Where to search if no needed pile is known: points all over the level in turn, each sailor at another one."""
        name = observation.place[0]
        level, crew = observation.scenario.levels[name], observation.scenario.crew
        stride = 2 * level.vision + 1
        if stride >= max(level.width, level.depth):
            return None
        points = [
            (name, min(x, level.width - 1), min(y, level.depth - 1))
            for y in range(level.vision, level.depth + level.vision, stride)
            for x in range(level.vision, level.width + level.vision, stride)
        ]
        # Move on after two strides, usually enough time to reach the next point.
        hour = (observation.day * observation.scenario.turns_per_day + observation.turn) // (2 * stride)
        return points[(hour + crew.index(observation.name) * len(points) // len(crew)) % len(points)]

    def _far(self, observation: Observation, pile: SeenPile) -> bool:
        return steps(observation.place, pile.place) > steps(observation.place, observation.camp)

    def _is_nearest_to_camp(self, observation: Observation) -> bool:
        mine = steps(observation.place, observation.camp)
        others = [steps(mate.place, observation.camp) for mate in observation.mates if mate.place is not None]
        return mine <= 2 and all(mine <= other for other in others if other)


class Careless:
    """An imperfect sailor: plays its role, but votes on a hunch, and is aimless in a share of its turns."""

    def __init__(self, random: Random, carelessness: float) -> None:
        """Make a sailor that is aimless with probability `carelessness` in each turn."""
        self._random = random
        self._carelessness = carelessness
        self._worker, self._saboteur, self._typist = Worker(), Saboteur(), Typist(random)

    def __call__(self, observation: Observation) -> Decision:
        """A vote on a hunch, an action of its role, or an aimless one."""
        hunch = ballot(observation, lurker(observation)) if observation.role == "colonist" else None
        if hunch is not None and refuse(observation, hunch.action) is None and self._random.random() < HUNCHES:
            return hunch
        if self._random.random() >= self._carelessness:
            return (self._saboteur if observation.role == "traitor" else self._worker)(observation)
        drift = self._typist(observation)
        # Only harmless actions: without a hunch nobody ejects another sailor, and nobody drops materials.
        return drift if drift.action.verb in ("MOVE", "WAIT", "EAT") else Decision(WAIT, AIMLESS)


class Saboteur:
    """An active traitor: sabotages the ship when nobody is near enough to see it, eats, and plants evidence."""

    def __call__(self, observation: Observation) -> Decision:
        """The most harmful action that leaves no proof."""
        if observation.phase.vote:
            return first_legal(observation, self._vote(observation), self._frame(observation), *self._eat(observation))
        if self._unseen(observation):
            strike = first_legal(observation, *self._strikes(observation))
            if strike != REST:
                return strike
        meal = first_legal(observation, *self._eat(observation))
        return meal if meal != REST else first_legal(observation, self._step(observation))

    def _unseen(self, observation: Observation) -> bool:
        reach = observation.scenario.evidence.witness
        return all(mate.place is None or distance(mate.place, observation.place) > reach for mate in observation.mates)

    def _strikes(self, observation: Observation) -> list[Decision]:
        """Sabotage of each component, the largest share of progress first."""
        parts = sorted(observation.scenario.components.items(), key=lambda item: (-item[1].share, item[0]))
        return [Decision(Action("SABOTAGE", (name,)), "unseen") for name, _ in parts]

    def _eat(self, observation: Observation) -> list[Decision]:
        hungry = not observation.ate or observation.energy <= observation.scenario.energy_low
        foods = [kind for kind in observation.scenario.food if kind in observation.backpack]
        actions = [Action("EAT", (kind,)) for kind in foods if hungry]
        if hungry and not foods:
            actions += [Action("GATHER", (p.id,)) for p in observation.here() if p.kind in observation.scenario.food]
        return [Decision(action, "hungry") for action in actions]

    def _step(self, observation: Observation) -> Decision | None:
        """Fetch food when weak; otherwise stay within reach of the ship, ready for an unseen moment."""
        food = nearest_pile(observation, set(observation.scenario.food))
        if food and observation.energy <= observation.scenario.energy_low:
            return fetch(observation, food)
        away = distance(observation.place, observation.camp)
        lurking = away <= observation.scenario.sabotage_range
        return None if lurking else go_to_camp(observation)

    def _frame(self, observation: Observation) -> Decision | None:
        mates = [mate.name for mate in observation.mates if mate.status == "alive"]
        return Decision(Action("FRAME", (mates[0],)), "blame") if mates and observation.day > 1 else None

    def _vote(self, observation: Observation) -> Decision | None:
        return ballot(observation, suspect(observation, least=50))
