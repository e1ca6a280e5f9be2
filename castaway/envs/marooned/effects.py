"""What happens in a turn: each action's effect on the world, on the public log of evidence, and on rewards.

Legality is not checked here; `actions` did that when the turn began. Effects are applied one sailor after another. They
check again only what an earlier sailor can have changed in the same turn, and raise `TooLate` if it has. In the log,
planted entries look exactly like true ones.
"""

import re
from collections.abc import Callable

from castaway.envs.marooned.actions import DIRECTIONS, Action
from castaway.envs.marooned.observation import symptoms_of
from castaway.envs.marooned.scenario import RoleRewards
from castaway.envs.marooned.state import Clue, Message, Pile, Sailor, Vote, World, distance


class TooLate(Exception):
    """An action without effect, because of what another sailor did in the same turn; the text is what it is told."""


class GameTurn:
    """One turn of a world: its rewards, by the rates that the scenario sets for each role, and its log entries."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._progress = world.progress
        self.total: dict[str, float] = dict.fromkeys(world.sailors, 0.0)

    def rates(self, sailor: Sailor) -> RoleRewards:
        return self.world.scenario.traitor if sailor.role == "traitor" else self.world.scenario.colonist

    def pay(self, sailor: Sailor, amount: float) -> None:
        self.total[sailor.name] += amount

    def log(self, kind: str, text: str, about: str = "", strength: int = 0) -> None:
        """Add an entry to the public log; a sailor named too often loses reward for it, once."""
        self.world.clues.append(Clue(self.world.day, self.world.turn, kind, about, strength, text))
        if about:
            sailor = self.world.sailors[about]
            sailor.named += 1
            if sailor.named == self.world.scenario.named_limit + 1:
                self.pay(sailor, self.rates(sailor).named)

    def pay_living(self) -> None:
        scenario = self.world.scenario
        for sailor in self.world.living:
            rates = self.rates(sailor)
            self.pay(sailor, rates.turn)
            if sailor.energy > scenario.energy_high:
                self.pay(sailor, rates.energy_high)
            elif sailor.energy < scenario.energy_low:
                self.pay(sailor, rates.energy_low)

    def pay_progress(self) -> None:
        """Ship progress since the start of the turn, and milestones; what sabotage took is not paid twice."""
        world = self.world
        gained = world.progress - self._progress
        reached = {mark for mark in ("25", "50", "75") if world.progress >= int(mark)} - world.milestones
        world.milestones |= reached
        for sailor in world.living:
            rates = self.rates(sailor)
            self.pay(sailor, rates.progress_point * gained)
            for mark in sorted(reached):
                self.pay(sailor, rates.milestones.get(mark, 0.0))

    def win(self, side: str, ending: str) -> None:
        self.world.winner, self.world.ending = side, ending
        for sailor in self.world.living:
            if (sailor.role == "traitor") == (side == "traitor"):
                self.pay(sailor, self.rates(sailor).success)


def apply(turn: GameTurn, sailor: Sailor, action: Action) -> bool:
    """Execute a legal action; False if it came too late and had no effect."""
    if not sailor.alive:
        return False
    try:
        _EFFECTS[action.verb](turn, sailor, *action.arguments)
    except TooLate as late:
        sailor.note = str(late)
        return False
    return True


def die(turn: GameTurn, sailor: Sailor, cause: str) -> None:
    """Let a sailor die of `cause`; what it carried becomes piles on its tile."""
    turn.pay(sailor, turn.rates(sailor).death)
    sailor.alive = False
    for kind, amount in sorted(sailor.backpack.items()):
        _lay_down(turn.world, sailor, kind, amount)
    sailor.backpack.clear()
    if cause == "poison" and sailor.poisoner:
        poisoner = turn.world.sailors[sailor.poisoner]
        if poisoner.alive:
            turn.pay(poisoner, turn.rates(poisoner).poison_kill)
    turn.log("death", f"{sailor.name} died of {cause}.")


def _lay_down(world: World, sailor: Sailor, kind: str, amount: int) -> None:
    world.dropped += 1
    # Numbers from 9001 on keep the ids apart from those of the first piles, which count from 1.
    pile = Pile(f"{kind.upper()}_{9000 + world.dropped}", kind, sailor.place, amount, fresh=False)
    world.piles[pile.id] = pile
    world.by_place.setdefault(pile.place, []).append(pile.id)


def _put(box: dict[str, int], kind: str, amount: int) -> None:
    box[kind] = box.get(kind, 0) + amount
    if not box[kind]:
        del box[kind]


def _seen(world: World, doer: Sailor, apart_from: str = "") -> bool:
    """Whether another living sailor (except `apart_from`) is near enough to recognise `doer`."""
    others = (other for other in world.living if other is not doer and other.name != apart_from)
    return any(distance(other.place, doer.place) <= world.scenario.evidence.witness for other in others)


# The actions: of work, of things, of words, of votes, and of the traitor -------------------------------------------


def _move(turn: GameTurn, sailor: Sailor, direction: str) -> None:
    level, x, y = sailor.place
    step_x, step_y = DIRECTIONS[direction]
    sailor.place = (level, x + step_x, y + step_y)


def _climb(turn: GameTurn, sailor: Sailor, slope: str) -> None:
    sailor.place = turn.world.stairs[sailor.place]


def _gather(turn: GameTurn, sailor: Sailor, pile_id: str) -> None:
    world, scenario = turn.world, turn.world.scenario
    pile = world.piles.get(pile_id)
    if pile is None:
        raise TooLate(f"{pile_id} was gone.")
    amount = min(pile.amount, scenario.gather_amount, scenario.backpack - sailor.load)
    if amount <= 0:  # filled by another sailor's GIVE in this turn
        raise TooLate("The backpack was full.")
    pile.amount -= amount
    if not pile.amount:
        del world.piles[pile_id]
        world.by_place[pile.place].remove(pile_id)
    _put(sailor.backpack, pile.kind, amount)
    sailor.note = f"You took {amount} {pile.kind}."
    if pile.fresh:
        turn.pay(sailor, turn.rates(sailor).gather)
        if pile.kind in scenario.materials:
            sailor.gathered += amount
    if pile.kind == scenario.poison_type and _seen(world, sailor):
        turn.log("poison", f"{sailor.name} was seen gathering poison.", sailor.name, scenario.evidence.poison_collected)


def _build(turn: GameTurn, sailor: Sailor, component: str) -> None:
    world, part = turn.world, turn.world.scenario.components[component]
    builders = sum(other.place == world.camp for other in world.living)
    waiting = part.after and world.ship[part.after] < 100
    missing = any(world.store.get(kind, 0) < amount for kind, amount in part.step_cost.items())
    if world.ship[component] >= 100 or waiting or missing or builders < world.scenario.builders:
        raise TooLate(f"The {component} could not be built any more.")
    for kind, amount in part.step_cost.items():
        _put(world.store, kind, -amount)
        world.spent[kind] = world.spent.get(kind, 0) + amount
    world.ship[component] = min(100, world.ship[component] + -(-100 // part.steps))
    turn.pay(sailor, turn.rates(sailor).build)


def _deposit(turn: GameTurn, sailor: Sailor, kind: str, count: str) -> None:
    world, amount = turn.world, int(count)
    _put(sailor.backpack, kind, -amount)
    _put(world.store, kind, amount)
    if kind in world.scenario.materials:
        sailor.handed_in += amount
    # Only a new maximum is rewarded: otherwise TAKE and DEPOSIT in turn would give unlimited reward.
    total = world.store.get(kind, 0) + world.spent.get(kind, 0)
    if total > world.credited.get(kind, 0):
        world.credited[kind] = total
        turn.pay(sailor, turn.rates(sailor).deposit)


def _take(turn: GameTurn, sailor: Sailor, kind: str, count: str) -> None:
    world, amount = turn.world, int(count)
    if world.store.get(kind, 0) < amount:
        raise TooLate(f"The store had too little {kind}.")
    if sailor.load + amount > world.scenario.backpack:
        raise TooLate("The backpack was full.")
    _put(world.store, kind, -amount)
    _put(sailor.backpack, kind, amount)
    if kind in world.scenario.materials:
        sailor.handed_in -= amount


def _drop(turn: GameTurn, sailor: Sailor, kind: str, count: str) -> None:
    _put(sailor.backpack, kind, -int(count))
    _lay_down(turn.world, sailor, kind, int(count))


def _give(turn: GameTurn, sailor: Sailor, name: str, kind: str, count: str) -> None:
    other, amount = turn.world.sailors[name], int(count)
    if not other.alive or other.place != sailor.place or other.load + amount > turn.world.scenario.backpack:
        raise TooLate(f"{name} could not take it.")
    _put(sailor.backpack, kind, -amount)
    _put(other.backpack, kind, amount)


def _eat(turn: GameTurn, sailor: Sailor, kind: str) -> None:
    scenario = turn.world.scenario
    _put(sailor.backpack, kind, -1)
    sailor.energy = min(scenario.energy.most, sailor.energy + scenario.food[kind])
    sailor.ate = True


def _antidote(turn: GameTurn, sailor: Sailor, name: str) -> None:
    patient = turn.world.sailors[name]
    if not symptoms_of(patient, turn.world):
        raise TooLate(f"{name} had been cured already.")
    _put(sailor.backpack, turn.world.scenario.antidote_type, -1)
    patient.poisoned_on = None


_CLAIM = re.compile(r"\bI am at (?:(\w+) )?\((\d+), ?(\d+)\)")


def _say(turn: GameTurn, sailor: Sailor, text: str) -> None:
    turn.world.messages.append(_send(turn.world, sailor, "", text))
    strength, claim = turn.world.scenario.evidence.location_mismatch, _CLAIM.search(text)
    if strength is None or claim is None:
        return
    level, x, y = claim.groups()
    honest = (int(x), int(y)) == sailor.place[1:] and level in (None, sailor.place[0])
    if not honest and _seen(turn.world, sailor):
        turn.log("location", f"{sailor.name} was not where {sailor.name} said.", sailor.name, strength)


def _send(world: World, sailor: Sailor, to: str, text: str) -> Message:
    message = Message(world.day, world.turn, sailor.name, to, text)
    sailor.messages += 1
    sailor.last_message = world.clock
    for other in world.sailors.values():
        if not to or other.name in (to, sailor.name):
            other.inbox.append(message)
    return message


def _sos(turn: GameTurn, sailor: Sailor) -> None:
    sailor.sos_on = turn.world.day
    level, x, y = sailor.place
    turn.log("sos", f"{sailor.name} calls for help at {level} ({x},{y}).")


def _accuse(turn: GameTurn, sailor: Sailor, name: str) -> None:
    turn.world.accused.add(name)
    turn.log("accusation", f"{sailor.name} accused {name}.")


def _show(turn: GameTurn, sailor: Sailor) -> None:
    inside = " ".join(f"{kind} {amount}" for kind, amount in sorted(sailor.backpack.items())) or "nothing"
    turn.log("search", f"{sailor.name} showed a backpack with {inside}.")


def _call_vote(turn: GameTurn, sailor: Sailor, name: str) -> None:
    """The first call opens the vote; further calls in the same turn count as ballots."""
    world = turn.world
    if world.vote is None:
        world.vote = Vote(sailor.name, world.clock + world.scenario.vote_turns - 1)
    _vote(turn, sailor, name)


def _vote(turn: GameTurn, sailor: Sailor, name: str) -> None:
    if turn.world.vote is None:
        raise TooLate
    turn.world.vote.ballots.setdefault(sailor.name, name)


def _sabotage(turn: GameTurn, sailor: Sailor, component: str) -> None:
    world = turn.world
    if world.ship[component] <= 0:
        raise TooLate(f"The {component} was gone.")
    world.ship[component] = max(0, world.ship[component] - world.random.randint(*world.scenario.sabotage_points))
    turn.pay(sailor, turn.rates(sailor).sabotage)
    if _seen(world, sailor):
        text = f"{sailor.name} was seen breaking the {component}."
        turn.log("sabotage", text, sailor.name, world.scenario.evidence.sabotage)
    else:
        turn.log("sabotage", f"The {component} was broken by somebody.")


def _poison(turn: GameTurn, sailor: Sailor, name: str) -> None:
    world, other = turn.world, turn.world.sailors[name]
    if not other.alive:
        raise TooLate
    _put(sailor.backpack, world.scenario.poison_type, -1)
    sailor.note = f"You poisoned {name}."
    if other.poisoned_on is None:
        other.poisoned_on, other.poisoner = world.day, sailor.name
        if _seen(world, sailor, apart_from=name):
            text = f"{sailor.name} was seen beside {name}."
            turn.log("poisoning", text, sailor.name, world.scenario.evidence.suspicious_death)


def _frame(turn: GameTurn, sailor: Sailor, name: str) -> None:
    world = turn.world
    sailor.framed = True
    strength = world.random.randint(*world.scenario.evidence.framing)
    component = world.random.choice(list(world.scenario.components))
    turn.log("sabotage", f"{name} was seen breaking the {component}.", name, strength)


_EFFECTS: dict[str, Callable[..., object]] = {
    "MOVE": _move,
    "CLIMB": _climb,
    "GATHER": _gather,
    "BUILD": _build,
    "DEPOSIT": _deposit,
    "TAKE": _take,
    "DROP": _drop,
    "GIVE": _give,
    "EAT": _eat,
    "USE_ANTIDOTE": _antidote,
    "SAY": _say,
    "TELL": lambda turn, sailor, name, text: _send(turn.world, sailor, name, text),
    "CALL_SOS": _sos,
    "WAIT": lambda turn, sailor: None,
    "ACCUSE": _accuse,
    "SHOW_BACKPACK": _show,
    "REFUSE_SHOW": lambda turn, sailor: turn.log("search", f"{sailor.name} refused to show the backpack."),
    "CALL_VOTE": _call_vote,
    "VOTE": _vote,
    "SABOTAGE": _sabotage,
    "POISON": _poison,
    "FRAME": _frame,
}
