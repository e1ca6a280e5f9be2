"""The rewards of a turn, by the rates that the scenario sets for each role."""

from __future__ import annotations

from castaway.envs.marooned.scenario import RolePay
from castaway.envs.marooned.state import Sailor, World


class Pay:
    """Adds up the rewards of one turn."""

    def __init__(self, world: World) -> None:
        """Start a turn; the current ship progress is what later progress is compared with."""
        self._world = world
        self._progress = world.progress
        self.total: dict[str, float] = dict.fromkeys(world.sailors, 0.0)
        """Sailor to reward of the turn so far."""

    def of(self, sailor: Sailor) -> RolePay:
        """The rates of the sailor's role."""
        return self._world.scenario.traitor if sailor.role == "traitor" else self._world.scenario.colonist

    def add(self, sailor: Sailor, amount: float) -> None:
        """Add to the reward of one sailor."""
        self.total[sailor.name] += amount

    def turn(self) -> None:
        """Add what every living sailor gets each turn, and the rewards for high or low energy."""
        scenario = self._world.scenario
        for sailor in self._world.living:
            rates = self.of(sailor)
            self.add(sailor, rates.turn)
            if sailor.energy > scenario.energy_high:
                self.add(sailor, rates.energy_high)
            elif sailor.energy < scenario.energy_low:
                self.add(sailor, rates.energy_low)

    def progress(self) -> None:
        """Reward ship progress since the start of the turn, and milestones.

        Progress lost to sabotage is subtracted, so repairing it is not rewarded twice.
        """
        gained = self._world.progress - self._progress
        reached = {mark for mark in ("25", "50", "75") if self._world.progress >= int(mark)} - self._world.milestones
        self._world.milestones |= reached
        for sailor in self._world.living:
            rates = self.of(sailor)
            self.add(sailor, rates.progress_point * gained)
            for mark in sorted(reached):
                self.add(sailor, rates.milestones.get(mark, 0.0))

    def success(self) -> None:
        """Reward the living sailors of the winning side for the victory, scaled by its tier."""
        share = self._tier() / 100
        for sailor in self._world.living:
            if (sailor.role == "traitor") == (self._world.winner == "traitor"):
                self.add(sailor, share * self.of(sailor).success)

    def _tier(self) -> int:
        """The value of the victory in percent of the full reward."""
        world = self._world
        tiers = world.scenario.tiers
        if tiers is None:
            return 100
        if world.winner == "traitor":
            return next((share for below, share in sorted(tiers.progress.items()) if world.progress < below), 0)
        left = sum(sailor.role == "colonist" for sailor in world.living)
        return next((share for least, share in sorted(tiers.survivors.items(), reverse=True) if left >= least), 0)
