"""Plays a game of MAROONED turn by turn: all living sailors act at once, and each gets its reward.

Actions are executed in the order of the crew, which rotates by one sailor each turn so that nobody is always first. An
action that was legal at the start of the turn but comes too late (another sailor took the pile) has no effect and costs
no energy.
"""

from __future__ import annotations

from collections.abc import Mapping

from castaway.envs.marooned import effects
from castaway.envs.marooned.actions import WAIT, Action
from castaway.envs.marooned.conduct import energy_cost, refuse
from castaway.envs.marooned.evidence import close_day_tally
from castaway.envs.marooned.island import draw_weather, new_world
from castaway.envs.marooned.observation import Observation, observe, phase_at
from castaway.envs.marooned.pay import Pay
from castaway.envs.marooned.scenario import Scenario
from castaway.envs.marooned.state import Sailor, World
from castaway.envs.marooned.voting import count_vote


class Game:
    """One game of MAROONED."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """Start a new game at dawn of the first day."""
        self.world: World = new_world(scenario, seed)
        self._observations: dict[str, Observation] = {}

    @property
    def over(self) -> bool:
        """Whether somebody has won."""
        return bool(self.world.winner)

    def observation(self, name: str) -> Observation:
        """What the sailor knows in this turn; the same object until the next step."""
        if name not in self._observations:
            self._observations[name] = observe(self.world, self.world.sailors[name])
        return self._observations[name]

    def step(self, actions: Mapping[str, Action], messages: Mapping[str, str] | None = None) -> dict[str, float]:
        """Play one turn.

        Args:
            actions: sailor to action; a sailor with a missing or illegal action waits.
            messages: sailor to a message said aloud in addition to the action; dropped if the sailor may not say it.

        Returns:
            Sailor to reward of this turn; 0 for all turns after its death.

        Raises:
            ValueError: the game is over.
        """
        world = self.world
        if self.over:
            raise ValueError("the game is over")
        pay = Pay(world)
        # Legality and costs depend only on the observations at the start of the turn, before any action has an effect.
        allowed = {sailor.name: self._allowed(sailor, actions.get(sailor.name, WAIT)) for sailor in world.living}
        spoken = {
            name: text
            for name, text in (messages or {}).items()
            if name in allowed and refuse(self.observation(name), Action("SAY", (text,))) is None
        }
        costs = {name: energy_cost(self.observation(name), action) for name, action in allowed.items()}
        self._observations = {}
        for sailor in self._order():
            sailor.note = ""
            action = allowed[sailor.name]
            if effects.apply(world, sailor, action, pay):
                sailor.energy -= costs[sailor.name]
            if sailor.name in spoken and action.verb not in ("SAY", "TELL"):
                effects.apply(world, sailor, Action("SAY", (spoken[sailor.name],)), pay)
        count_vote(world, pay)
        self._settle(pay)
        if not world.winner:
            self._advance(pay)
        return pay.total

    def _allowed(self, sailor: Sailor, action: Action) -> Action:
        return action if refuse(self.observation(sailor.name), action) is None else WAIT

    def _order(self) -> list[Sailor]:
        living = self.world.living
        first = self.world.clock % len(living)
        return living[first:] + living[:first]

    def _settle(self, pay: Pay) -> None:
        """Give the rewards of the turn and of ship progress, and end the game if it is decided."""
        pay.turn()
        pay.progress()
        self._finish(pay)

    def _finish(self, pay: Pay) -> None:
        world = self.world
        if world.winner:
            pass
        elif world.progress >= 100:
            world.winner, world.ending = "crew", "the ship was finished"
        elif len(world.living) < world.scenario.least_alive:
            world.winner, world.ending = "traitor", f"fewer than {world.scenario.least_alive} sailors were left"
        if world.winner:
            pay.success()

    def _advance(self, pay: Pay) -> None:
        world = self.world
        before = phase_at(world.scenario, world.turn)[0]
        if world.turn == world.scenario.turns_per_day:
            close_day_tally(world, pay)
            if world.day == world.scenario.days:
                world.winner, world.ending = "traitor", "the last day was over"
                pay.success()
                return
            self._dawn(pay)
            self._finish(pay)
            return
        world.turn += 1
        if phase_at(world.scenario, world.turn)[0] is not before:
            for sailor in world.living:
                sailor.messages = 0

    def _dawn(self, pay: Pay) -> None:
        """Start a new day: food, poison and weather take effect; votes and message counts are reset."""
        world = self.world
        world.day, world.turn = world.day + 1, 1
        world.accused.clear()
        draw_weather(world)
        world.vote, world.voted_today = None, False
        for sailor in world.living:
            sailor.messages = 0
            energy = world.scenario.energy
            change = energy.fed if sailor.ate else -energy.hungry
            sailor.energy = max(0, min(energy.most, sailor.energy + change))
            sailor.ate = False
            if sailor.energy <= 0:
                effects.die(world, sailor, pay, "hunger")
            elif sailor.poisoned_on is not None and world.day - sailor.poisoned_on >= world.scenario.poison.death:
                effects.die(world, sailor, pay, "poison")
