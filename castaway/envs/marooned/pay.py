"""Rewards: each paid once, to the sailor that earned it, by the scenario's rates for its role."""

from __future__ import annotations

from castaway.envs.marooned.scenario import RolePay
from castaway.envs.marooned.state import Sailor, World


class Pay:
    """The payroll of one turn."""

    def __init__(self, world: World) -> None:
        """Note the ship as it is before the turn."""
        self._world = world
        self._progress = world.progress
        self.total: dict[str, float] = dict.fromkeys(world.sailors, 0.0)

    def of(self, sailor: Sailor) -> RolePay:
        """The rates of the sailor's role."""
        return self._world.scenario.traitor if sailor.role == "traitor" else self._world.scenario.colonist

    def add(self, sailor: Sailor, amount: float) -> None:
        """Pay one sailor."""
        self.total[sailor.name] += amount

    def turn(self) -> None:
        """The price of a turn, and the state of one's body."""
        scenario = self._world.scenario
        for sailor in self._world.living:
            rates = self.of(sailor)
            self.add(sailor, rates.turn)
            if sailor.energy > scenario.energy_high:
                self.add(sailor, rates.energy_high)
            elif sailor.energy < scenario.energy_low:
                self.add(sailor, rates.energy_low)

    def progress(self) -> None:
        """Points of ship progress since the turn began; what sabotage takes is taken back, so nothing is paid twice."""
        gained = self._world.progress - self._progress
        reached = {mark for mark in ("25", "50", "75") if self._world.progress >= int(mark)} - self._world.milestones
        self._world.milestones |= reached
        for sailor in self._world.living:
            rates = self.of(sailor)
            self.add(sailor, rates.progress_point * gained)
            for mark in sorted(reached):
                self.add(sailor, rates.milestones.get(mark, 0.0))

    def success(self) -> None:
        """The end of the game, for the living of the winning side, by the tier of the victory."""
        share = self._tier() / 100
        for sailor in self._world.living:
            if (sailor.role == "traitor") == (self._world.winner == "traitor"):
                self.add(sailor, share * self.of(sailor).success)

    def _tier(self) -> int:
        """What the victory is worth, in percent."""
        world = self._world
        tiers = world.scenario.tiers
        if tiers is None:
            return 100
        if world.winner == "traitor":
            return next((share for below, share in sorted(tiers.progress.items()) if world.progress < below), 0)
        left = sum(sailor.role == "colonist" for sailor in world.living)
        return next((share for least, share in sorted(tiers.survivors.items(), reverse=True) if left >= least), 0)
