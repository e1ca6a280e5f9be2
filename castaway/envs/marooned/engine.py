"""One turn of MAROONED: all living sailors act at once, the world answers, and each sailor is paid.

Actions are resolved in the order of the crew, which moves on by one sailor a turn so that nobody is always first. What
was legal when the turn began but came too late (another sailor took the pile) has no effect and costs no energy.
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
    """A game in progress."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """A new game at dawn of the first day."""
        self.world: World = new_world(scenario, seed)
        self._observations: dict[str, Observation] = {}

    @property
    def over(self) -> bool:
        """Whether somebody has won."""
        return bool(self.world.winner)

    def observation(self, name: str) -> Observation:
        """What the sailor knows in this turn; the same object until the turn ends."""
        if name not in self._observations:
            self._observations[name] = observe(self.world, self.world.sailors[name])
        return self._observations[name]

    def step(self, actions: Mapping[str, Action], messages: Mapping[str, str] | None = None) -> dict[str, float]:
        """Play one turn.

        Args:
            actions: what each living sailor does; who is missing or not allowed to do it waits.
            messages: what sailors say aloud beside acting, within their limits; dropped when over them.

        Returns:
            What every sailor was paid for this turn. Nobody is paid after its death or the end.

        Raises:
            ValueError: the game is over.
        """
        world = self.world
        if self.over:
            raise ValueError("the game is over")
        pay = Pay(world)
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
        """Standing pay of the turn, ship progress, and the end of the game if it has come."""
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
        """A new day: hunger, poison, and a clean sheet for votes and talk."""
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
