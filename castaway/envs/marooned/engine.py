"""Plays a game of MAROONED turn by turn: all living sailors act at once, and each gets its reward.

Actions are executed in the order of the crew, which rotates by one sailor each turn so that nobody is always first. An
action that was legal at the start of the turn but comes too late (another sailor took the pile) has no effect and costs
no energy.
"""

from collections import Counter
from collections.abc import Mapping

from castaway.envs.marooned.actions import WAIT, Action, energy_cost, refuse
from castaway.envs.marooned.effects import GameTurn, apply, die
from castaway.envs.marooned.observation import Observation, observe, phase_at
from castaway.envs.marooned.scenario import Scenario
from castaway.envs.marooned.state import Sailor, World, new_world

OUT_OF_TURNS = "the budget of turns was used up"


class Game:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.world: World = new_world(scenario, seed)
        self._observations: dict[str, Observation] = {}

    @property
    def over(self) -> bool:
        return bool(self.world.winner)

    def observation(self, name: str) -> Observation:
        """What the sailor knows in this turn; the same object until the next step."""
        if name not in self._observations:
            self._observations[name] = observe(self.world, self.world.sailors[name])
        return self._observations[name]

    def step(self, actions: Mapping[str, Action]) -> dict[str, float]:
        if self.over:
            raise ValueError("the game is over")
        world, turn = self.world, GameTurn(self.world)
        # Legality and costs depend only on the observations at the start of the turn, before any action has an effect.
        allowed: dict[str, tuple[Action, int]] = {}
        for sailor in world.living:
            seen, action = self.observation(sailor.name), actions.get(sailor.name, WAIT)
            action = action if refuse(seen, action) is None else WAIT
            allowed[sailor.name] = action, energy_cost(seen, action)
        self._observations = {}
        for sailor in self._order():
            sailor.note = ""
            action, cost = allowed[sailor.name]
            if apply(turn, sailor, action):
                sailor.energy -= cost
        ejection = count_vote(turn)
        turn.pay_living()
        turn.pay_progress()
        if ejection:
            turn.win("crew", ejection)
        else:
            self._finish(turn)
        if not self.over:
            self._advance(turn)
        return turn.total

    def _order(self) -> list[Sailor]:
        living = self.world.living
        first = self.world.clock % len(living)
        return living[first:] + living[:first]

    def _finish(self, turn: GameTurn) -> None:
        world = self.world
        if world.progress >= 100:
            turn.win("crew", "the ship was finished")
        elif len(world.living) < world.scenario.least_alive:
            turn.win("traitor", f"fewer than {world.scenario.least_alive} sailors were left")

    def _advance(self, turn: GameTurn) -> None:
        world = self.world
        if world.clock + 1 == world.scenario.turns:
            turn.win("traitor", OUT_OF_TURNS)
            return
        before = phase_at(world.scenario, world.turn)[0]
        if world.turn < world.scenario.turns_per_day:
            world.turn += 1
            if phase_at(world.scenario, world.turn)[0] is not before:
                for sailor in world.living:
                    sailor.messages = 0
            return
        log_thefts(turn)
        if world.day == world.scenario.days:
            turn.win("traitor", "the last day was over")
        else:
            self._dawn(turn)
            self._finish(turn)

    def _dawn(self, turn: GameTurn) -> None:
        world, energy = self.world, self.world.scenario.energy
        world.day, world.turn = world.day + 1, 1
        world.accused.clear()
        world.vote, world.voted_today = None, False
        for sailor in world.living:
            sailor.messages = 0
            sailor.energy = max(0, min(energy.most, sailor.energy + (energy.fed if sailor.ate else -energy.hungry)))
            sailor.ate = False
            if sailor.energy <= 0:
                die(turn, sailor, "hunger")
            elif sailor.poisoned_on is not None and world.day - sailor.poisoned_on >= world.scenario.poison.death:
                die(turn, sailor, "poison")


def log_thefts(turn: GameTurn) -> None:
    rules = turn.world.scenario.evidence
    for sailor in turn.world.living:
        missing = sailor.gathered - sailor.handed_in
        if rules.resource_theft is not None and missing * 100 > rules.theft_margin * sailor.gathered > 0:
            text = f"{sailor.name} handed in {missing} less than was gathered."
            turn.log("theft", text, sailor.name, rules.resource_theft)
        sailor.gathered = sailor.handed_in = 0


def count_vote(turn: GameTurn) -> str:
    """Close the open vote if it is due, and eject by it; returns how the game ends by it, empty if it goes on."""
    world, vote = turn.world, turn.world.vote
    if vote is None:
        return ""
    phase, number = phase_at(world.scenario, world.turn)
    all_voted = all(sailor.name in vote.ballots for sailor in world.living)
    if world.clock < vote.closes and number < phase.turns and not all_voted:
        return ""
    world.vote, world.voted_today = None, True
    living = {sailor.name: sailor for sailor in world.living}
    valid = {voter: name for voter, name in vote.ballots.items() if voter in living and name in living}
    for voter, name in valid.items():
        rates, right = turn.rates(living[voter]), living[name].role == "traitor"
        turn.pay(living[voter], rates.ballot_right if right else rates.ballot_wrong)
    name, count = max(Counter(valid.values()).items(), key=lambda item: (item[1], item[0]), default=("", 0))
    if count * 100 <= world.scenario.majority * len(living):
        turn.log("vote", "The vote ejected nobody.")
        return ""
    ejected = living[name]
    guilty = ejected.role == "traitor"
    for sailor in living.values():
        rates = turn.rates(sailor)
        turn.pay(sailor, rates.traitor_ejected if guilty else rates.innocent_ejected)
    ejected.alive, ejected.ejected = False, True
    turn.log("vote", f"The vote ejected {name}.")
    if guilty:
        return "the traitor was ejected"
    world.mistakes += 1
    text = f"{vote.called_by} called the vote against an innocent."
    turn.log("false", text, vote.called_by, world.scenario.evidence.false_information)
    return ""
