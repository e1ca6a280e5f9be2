"""Scripted sailors. Like a policy, each decides on its own observation alone.

`worker` is a competent colonist, `saboteur` an active traitor, `careless` plays either role but is aimless in some
turns, `Typist` takes random legal actions, and `waiter` always waits.
"""

from random import Random

from castaway.envs.marooned.actions import WAIT, Action, build_problem, legal_actions, parse_action, refuse
from castaway.envs.marooned.affairs import suspect
from castaway.envs.marooned.compact import bringable, heading, lurker, nearest_pile, next_pile, remaining_need, steps
from castaway.envs.marooned.company import Wishes, as_colonist, as_traitor, prowl
from castaway.envs.marooned.decisions import REST, Decision, Script, ballot, fetch, first_legal, go_to_camp, walk
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.state import distance
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player

HUNCHES = 0.5  # share of its chances in which an ordinary colonist votes for who lurks beside the broken ship
AIMLESS = "wander"


def waiter(observation: Observation) -> Decision:
    return REST


class Typist:
    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self, observation: Observation) -> Decision:
        """A random legal action: first a verb, then one of its actions, so that every verb has the same probability."""
        by_verb: dict[str, list[str]] = {}
        for text in legal_actions(observation):
            by_verb.setdefault(text.split(" ", 1)[0], []).append(text)
        action = parse_action(self._random.choice(by_verb[self._random.choice(sorted(by_verb))]))
        assert action is not None
        return Decision(action, AIMLESS)


def worker(observation: Observation) -> Decision:
    """A competent colonist: fetches what the ship needs, builds, eats in time, and votes on strong evidence."""
    name = suspect(observation)
    if name and observation.phase.vote:
        return first_legal(observation, ballot(observation, name), *_at_hand(observation))
    at_hand = first_legal(observation, *_at_hand(observation))
    if at_hand != REST or not observation.phase.work:
        return at_hand
    return first_legal(observation, _errand(observation))


def _at_hand(observation: Observation) -> list[Decision]:
    wishes = []
    foods = [kind for kind in observation.scenario.food if kind in observation.backpack]
    tired = observation.energy <= observation.scenario.energy_high
    if foods and (tired or not observation.ate):
        wishes.append(Decision(Action("EAT", (foods[0],)), "hungry"))
    if observation.at_camp:
        if not foods and _is_weak(observation):
            stored = [kind for kind in observation.scenario.food if kind in observation.store]
            wishes += [Decision(Action("TAKE", (kind, "1")), "hungry") for kind in stored]
        for kind, amount in bringable(observation).items():
            wishes.append(Decision(Action("DEPOSIT", (kind, str(amount))), "store"))
        wishes += [Decision(Action("BUILD", (name,)), "ready") for name in observation.scenario.components]
    return wishes


def _errand(observation: Observation) -> Decision | None:
    """To food when weak, to the camp when loaded or needed there, otherwise to the next pile."""
    carried = sum(observation.backpack.get(kind, 0) for kind in remaining_need(observation))
    room = observation.scenario.backpack - observation.load
    if _is_weak(observation) and room > 0:
        food = nearest_pile(observation, set(observation.scenario.food))
        if food:
            return fetch(observation, food)
    pile = next_pile(observation)
    enough = carried >= 2 * observation.scenario.gather_amount or room <= 0
    camp = steps(observation.place, observation.camp)
    if carried and (enough or pile is None or steps(observation.place, pile.place) > camp):
        return go_to_camp(observation)
    ready = any(not build_problem(observation, name) for name in observation.scenario.components)
    others = [steps(mate.place, observation.camp) for mate in observation.mates if mate.place is not None]
    nearest = camp <= 2 and all(camp <= other for other in others if other)
    home = None if observation.at_camp else go_to_camp(observation)
    if ready and (observation.at_camp or nearest):
        return home
    return fetch(observation, pile) if pile else _search(observation) or home


def _is_weak(observation: Observation) -> bool:
    scenario = observation.scenario
    return observation.energy <= scenario.energy_low + scenario.energy.hungry and observation.day < scenario.days


def _search(observation: Observation) -> Decision | None:
    """Visit points all over the level in turn, each sailor another one, since no needed pile is known."""
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
    goal = points[(hour + crew.index(observation.name) * len(points) // len(crew)) % len(points)]
    if goal == observation.camp:
        return go_to_camp(observation)
    return Decision(walk(observation, goal), f"search {heading(observation.place, goal)}")


def careless(random: Random, random_action_rate: float) -> Script:
    """An imperfect sailor: plays its role, but votes on a hunch, and is aimless in a share of its turns."""
    typist = Typist(random)

    def play(observation: Observation) -> Decision:
        hunch = ballot(observation, lurker(observation)) if observation.role == "colonist" else None
        if hunch is not None and refuse(observation, hunch.action) is None and random.random() < HUNCHES:
            return hunch
        if random.random() >= random_action_rate:
            return role_script(observation.role)(observation)
        drift = typist(observation)
        # Only harmless actions: without a hunch nobody ejects another sailor, and nobody drops materials.
        return drift if drift.action.verb in ("MOVE", "WAIT", "EAT") else Decision(WAIT, AIMLESS)

    return play


def saboteur(observation: Observation) -> Decision:
    """An active traitor: sabotages the ship when nobody is near enough to see it, eats, and plants evidence."""
    meals = _meals(observation)
    if observation.phase.vote:
        mates = [mate.name for mate in observation.mates if mate.status == "alive"]
        frame = Decision(Action("FRAME", (mates[0],)), "blame") if mates and observation.day > 1 else None
        return first_legal(observation, ballot(observation, suspect(observation, least=50)), frame, *meals)
    reach = observation.scenario.evidence.witness
    near = (mate.place and distance(mate.place, observation.place) <= reach for mate in observation.mates)
    parts = sorted(observation.scenario.components.items(), key=lambda item: (-item[1].share, item[0]))
    strikes = [] if any(near) else [Decision(Action("SABOTAGE", (name,)), "unseen") for name, _ in parts]
    act = first_legal(observation, *strikes, *meals)
    further: Wishes = prowl(observation) if observation.scenario.repertoire == "whole" else []
    return act if act != REST else first_legal(observation, *further, _step(observation))


def _meals(observation: Observation) -> list[Decision]:
    if observation.ate and observation.energy > observation.scenario.energy_low:
        return []
    foods = observation.scenario.food
    actions = [Action("EAT", (kind,)) for kind in foods if kind in observation.backpack]
    if not actions:
        actions = [Action("GATHER", (pile.id,)) for pile in observation.here() if pile.kind in foods]
    return [Decision(action, "hungry") for action in actions]


def _step(observation: Observation) -> Decision | None:
    food = nearest_pile(observation, set(observation.scenario.food))
    if food and observation.energy <= observation.scenario.energy_low:
        return fetch(observation, food)
    lurking = distance(observation.place, observation.camp) <= observation.scenario.sabotage_range
    return None if lurking else go_to_camp(observation)


def role_script(role: str) -> Script:
    """The script of a role, in the repertoire of the scenario."""
    script = saboteur if role == "traitor" else worker

    def play(observation: Observation) -> Decision:
        act = beside_work(observation)
        return script(observation) if act == REST else act

    return play


def beside_work(observation: Observation) -> Decision:
    """What the whole repertoire has to do before work and sabotage; REST for nothing, as always in the core."""
    if observation.scenario.repertoire == "core":
        return REST
    return first_legal(observation, *(as_traitor if observation.role == "traitor" else as_colonist)(observation))


def expert(prompt: Prompt) -> Reply:
    return role_script(prompt.role)(prompt.observation).reply


def demonstrator(random: Random, random_action_rate: float) -> Player:
    script = careless(random, random_action_rate)
    return lambda prompt: script(prompt.observation).reply
