"""What each action does to the world. Legality is not checked here; `conduct` did that when the turn began.

Effects are applied one sailor after another. They check again only what an earlier sailor can have changed in the same
turn, and return False if the action comes too late.
"""

from __future__ import annotations

from collections.abc import Callable

from castaway.envs.marooned.actions import DIRECTIONS, Action
from castaway.envs.marooned.evidence import (
    compare_claim,
    frame,
    log_clue,
    see_poison,
    see_sabotage,
    witnesses,
)
from castaway.envs.marooned.observation import symptoms_of
from castaway.envs.marooned.pay import Pay
from castaway.envs.marooned.state import Message, Pile, Sailor, Vote, World


def apply(world: World, sailor: Sailor, action: Action, pay: Pay) -> bool:
    """Execute a legal action; False if it came too late and had no effect."""
    if not sailor.alive:
        return False
    return _EFFECTS[action.verb](world, sailor, pay, *action.arguments)


def say(world: World, sailor: Sailor, text: str, to: str = "") -> None:
    """Send a message to all sailors, or to one (`to`)."""
    message = Message(world.day, world.turn, sailor.name, to, text)
    sailor.messages += 1
    sailor.last_message = world.clock
    if not to:
        world.messages.append(message)
    for other in world.sailors.values():
        if not to or other.name in (to, sailor.name):
            other.inbox.append(message)


def die(world: World, sailor: Sailor, pay: Pay, cause: str) -> None:
    """Let a sailor die of `cause`; what it carried becomes piles on its tile."""
    pay.add(sailor, pay.of(sailor).death)
    sailor.alive = False
    for kind, amount in sorted(sailor.backpack.items()):
        _lay_down(world, sailor, kind, amount)
    sailor.backpack.clear()
    if cause == "poison" and sailor.poisoner:
        poisoner = world.sailors[sailor.poisoner]
        if poisoner.alive:
            pay.add(poisoner, pay.of(poisoner).poison_kill)
    log_clue(world, pay, "death", "", 0, f"{sailor.name} died of {cause}.")


def _lay_down(world: World, sailor: Sailor, kind: str, amount: int) -> None:
    world.dropped += 1
    # Numbers from 9001 on keep the ids apart from those of the first piles, which count from 1.
    pile = Pile(f"{kind.upper()}_{9000 + world.dropped}", kind, sailor.place, amount, fresh=False)
    world.piles[pile.id] = pile
    world.by_place.setdefault(pile.place, []).append(pile.id)


def _put(box: dict[str, int], kind: str, amount: int) -> None:
    """Change the amount of a resource; an amount of zero is removed."""
    box[kind] = box.get(kind, 0) + amount
    if not box[kind]:
        del box[kind]


def _move(world: World, sailor: Sailor, pay: Pay, direction: str) -> bool:
    level, x, y = sailor.place
    step_x, step_y = DIRECTIONS[direction]
    sailor.place = (level, x + step_x, y + step_y)
    return True


def _climb(world: World, sailor: Sailor, pay: Pay, slope: str) -> bool:
    sailor.place = world.stairs[sailor.place]
    return True


def _gather(world: World, sailor: Sailor, pay: Pay, pile_id: str) -> bool:
    pile = world.piles.get(pile_id)
    if pile is None:
        sailor.note = f"{pile_id} was gone."
        return False
    scenario = world.scenario
    amount = min(pile.amount, scenario.gather_amount, scenario.backpack - sailor.load)
    if amount <= 0:  # filled by another sailor's GIVE in this turn
        sailor.note = "The backpack was full."
        return False
    pile.amount -= amount
    if not pile.amount:
        del world.piles[pile_id]
        world.by_place[pile.place].remove(pile_id)
    _put(sailor.backpack, pile.kind, amount)
    sailor.note = f"You took {amount} {pile.kind}."
    if pile.fresh:
        pay.add(sailor, pay.of(sailor).gather)
        if pile.kind in world.scenario.materials:
            sailor.gathered += amount
    if pile.kind == scenario.poison_type:
        see_poison(world, pay, sailor)
    return True


def _deposit(world: World, sailor: Sailor, pay: Pay, kind: str, count: str) -> bool:
    amount = int(count)
    _put(sailor.backpack, kind, -amount)
    _put(world.store, kind, amount)
    if kind in world.scenario.materials:
        sailor.handed_in += amount
    # Only a new maximum is rewarded: otherwise TAKE and DEPOSIT in turn would give unlimited reward.
    total = world.store.get(kind, 0) + world.spent.get(kind, 0)
    if total > world.credited.get(kind, 0):
        world.credited[kind] = total
        pay.add(sailor, pay.of(sailor).deposit)
    return True


def _take(world: World, sailor: Sailor, pay: Pay, kind: str, count: str) -> bool:
    amount = int(count)
    if world.store.get(kind, 0) < amount:
        sailor.note = f"The store had too little {kind}."
        return False
    if sailor.load + amount > world.scenario.backpack:
        sailor.note = "The backpack was full."
        return False
    _put(world.store, kind, -amount)
    _put(sailor.backpack, kind, amount)
    if kind in world.scenario.materials:
        sailor.handed_in -= amount
    return True


def _drop(world: World, sailor: Sailor, pay: Pay, kind: str, count: str) -> bool:
    _put(sailor.backpack, kind, -int(count))
    _lay_down(world, sailor, kind, int(count))
    return True


def _give(world: World, sailor: Sailor, pay: Pay, name: str, kind: str, count: str) -> bool:
    other, amount = world.sailors[name], int(count)
    if not other.alive or other.place != sailor.place or other.load + amount > world.scenario.backpack:
        sailor.note = f"{name} could not take it."
        return False
    _put(sailor.backpack, kind, -amount)
    _put(other.backpack, kind, amount)
    return True


def _eat(world: World, sailor: Sailor, pay: Pay, kind: str) -> bool:
    _put(sailor.backpack, kind, -1)
    sailor.energy = min(world.scenario.energy.most, sailor.energy + world.scenario.food[kind])
    sailor.ate = True
    return True


def _build(world: World, sailor: Sailor, pay: Pay, component: str) -> bool:
    part = world.scenario.components[component]
    builders = sum(other.place == world.camp for other in world.living)
    waiting = part.after and world.ship[part.after] < 100
    missing = any(world.store.get(kind, 0) < amount for kind, amount in part.step_cost.items())
    if world.ship[component] >= 100 or waiting or missing or builders < world.scenario.builders:
        sailor.note = f"The {component} could not be built any more."
        return False
    for kind, amount in part.step_cost.items():
        _put(world.store, kind, -amount)
        world.spent[kind] = world.spent.get(kind, 0) + amount
    world.ship[component] = min(100, world.ship[component] + -(-100 // part.steps))
    pay.add(sailor, pay.of(sailor).build)
    return True


def _say(world: World, sailor: Sailor, pay: Pay, text: str) -> bool:
    say(world, sailor, text)
    compare_claim(world, pay, sailor, text)
    return True


def _tell(world: World, sailor: Sailor, pay: Pay, name: str, text: str) -> bool:
    say(world, sailor, text, to=name)
    return True


def _accuse(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    world.accused.add(name)
    log_clue(world, pay, "accusation", "", 0, f"{sailor.name} accused {name}.")
    return True


def _call_vote(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    """The first call opens the vote; further calls in the same turn count as ballots."""
    if world.vote is None:
        world.vote = Vote(sailor.name, world.clock + world.scenario.vote_turns - 1)
    world.vote.ballots.setdefault(sailor.name, name)
    return True


def _vote(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    if world.vote is None:
        return False
    world.vote.ballots.setdefault(sailor.name, name)
    return True


def _show(world: World, sailor: Sailor, pay: Pay) -> bool:
    inside = " ".join(f"{kind} {amount}" for kind, amount in sorted(sailor.backpack.items())) or "nothing"
    log_clue(world, pay, "search", "", 0, f"{sailor.name} showed a backpack with {inside}.")
    return True


def _refuse_show(world: World, sailor: Sailor, pay: Pay) -> bool:
    log_clue(world, pay, "search", "", 0, f"{sailor.name} refused to show the backpack.")
    return True


def _antidote(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    if not symptoms_of(world.sailors[name], world):
        sailor.note = f"{name} had been cured already."
        return False
    _put(sailor.backpack, world.scenario.antidote_type, -1)
    world.sailors[name].poisoned_on = None
    return True


def _sos(world: World, sailor: Sailor, pay: Pay) -> bool:
    sailor.sos_on = world.day
    level, x, y = sailor.place
    log_clue(world, pay, "sos", "", 0, f"{sailor.name} calls for help at {level} ({x},{y}).")
    return True


def _sabotage(world: World, sailor: Sailor, pay: Pay, component: str) -> bool:
    if world.ship[component] <= 0:
        sailor.note = f"The {component} was gone."
        return False
    least, most = world.scenario.sabotage_points
    world.ship[component] = max(0, world.ship[component] - world.random.randint(least, most))
    pay.add(sailor, pay.of(sailor).sabotage)
    see_sabotage(world, pay, sailor, component)
    return True


def _poison(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    other = world.sailors[name]
    if not other.alive:
        return False
    _put(sailor.backpack, world.scenario.poison_type, -1)
    if other.poisoned_on is None:
        other.poisoned_on, other.poisoner = world.day, sailor.name
        strength = world.scenario.evidence.suspicious_death
        if strength is not None and witnesses(world, sailor, apart_from=name):
            log_clue(world, pay, "poisoning", sailor.name, strength, f"{sailor.name} was seen beside {name}.")
    return True


def _frame(world: World, sailor: Sailor, pay: Pay, name: str) -> bool:
    sailor.framed = True
    frame(world, pay, name)
    return True


_EFFECTS: dict[str, Callable[..., bool]] = {
    "MOVE": _move,
    "CLIMB": _climb,
    "GATHER": _gather,
    "DEPOSIT": _deposit,
    "TAKE": _take,
    "DROP": _drop,
    "GIVE": _give,
    "EAT": _eat,
    "BUILD": _build,
    "SAY": _say,
    "TELL": _tell,
    "ACCUSE": _accuse,
    "CALL_VOTE": _call_vote,
    "VOTE": _vote,
    "SHOW_BACKPACK": _show,
    "REFUSE_SHOW": _refuse_show,
    "USE_ANTIDOTE": _antidote,
    "CALL_SOS": _sos,
    "WAIT": lambda world, sailor, pay: True,
    "SABOTAGE": _sabotage,
    "POISON": _poison,
    "FRAME": _frame,
}
