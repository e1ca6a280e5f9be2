"""A scenario: every size, cost, count, limit and reward of a game of MAROONED, as checked data.

The rules are the same for all scenarios; `scenarios/classic.yaml` is the published island and `scenarios/skiff.yaml`
one that a model of a million parameters can learn on a laptop.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML

from castaway.errors import CastawayError

Natural = Annotated[int, Field(ge=0)]
Counting = Annotated[int, Field(gt=0)]
Percent = Annotated[int, Field(ge=0, le=100)]


class Data(BaseModel):
    """A frozen, strict piece of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Level(Data):
    """One level of the island: x grows east, y grows south."""

    height: int
    """z: levels are climbed between in order of their height."""
    width: Counting
    depth: Counting
    vision: Natural
    """A sailor sees this far, in both axes (Chebyshev distance)."""
    stairs: dict[str, list[int] | None]
    """To which level a stair leads, and where it stands; null places it at random."""
    piles: dict[str, Natural]
    """Resource type to number of piles."""


class Component(Data):
    """A part of the ship. It is paid for from the common store in equal steps."""

    share: Percent
    """Its share of the ship's progress."""
    step_cost: dict[str, Counting]
    """What one BUILD takes from the store."""
    steps: Counting
    """How many BUILDs finish it."""
    after: str | None
    """The component that must be finished first."""


class Phase(Data):
    """A part of the day. Phases follow each other in the order of the list."""

    name: Literal["morning", "exploration", "evening", "discussion"]
    turns: Counting
    work: bool
    """May sailors move, climb, gather, poison and sabotage?"""
    vote: bool
    """May sailors call votes, vote and be searched?"""
    messages: Natural
    """Messages that a sailor may send in the phase."""
    message_every: Counting
    """At most one message in so many turns."""


class Energy(Data):
    """What work costs. The traitor pays `traitor_discount` percent less, rounded up."""

    start: Counting
    most: Counting
    walk: Natural
    climb_up: Natural
    climb_down: Natural
    gather: Natural
    build: Natural
    traitor_discount: Percent
    fed: Natural
    """Gained at dawn by who ate the day before."""
    hungry: Natural
    """Lost at dawn by who did not; a sailor without energy dies."""


class Poison(Data):
    """A poisoned sailor shows nothing, then symptoms, then dies; days since the poisoning."""

    early: Counting
    severe: Counting
    death: Counting


class Evidence(Data):
    """Strengths of the entries of the public log; null switches a kind off."""

    witness: Natural
    """A hand is recognised at most this far away."""
    sabotage: Percent | None
    poison_collected: Percent | None
    suspicious_death: Percent | None
    location_mismatch: Percent | None
    resource_theft: Percent | None
    theft_margin: Percent
    """Theft is logged when more than this percentage of what was gathered was not handed in by the day's end."""
    false_information: Percent | None
    framing: list[Percent]
    """Lowest and highest strength of planted evidence."""


class RolePay(Data):
    """What one role is paid."""

    turn: float
    gather: float
    deposit: float
    build: float
    progress_point: float
    milestones: dict[str, float]
    success: float
    death: float
    traitor_ejected: float
    innocent_ejected: float
    energy_high: float
    energy_low: float
    sabotage: float
    poison_kill: float
    named: float
    """Paid once when a sailor has been named in more than `Scenario.named_limit` entries of evidence."""


class Weather(Data):
    """Some days are a storm, fog, rain or clear skies, alike likely; all others are nothing."""

    chance: Percent
    """Of a day to have any."""
    fog_vision: Natural
    """In fog nobody sees farther."""
    rain_cost: Counting
    """What work costs in the rain, in percent; in a storm there is none."""
    clear_cost: Counting


class Tiers(Data):
    """How much of the pay for success a victory is worth."""

    survivors: dict[int, Percent]
    """The crew's: at least so many colonists left, in percent of the pay; with fewer, nothing."""
    progress: dict[int, Percent]
    """The traitor's: the ship below this progress, in percent of the pay; above all, nothing."""


class Scenario(Data):
    """A whole game as data."""

    name: str
    crew: Annotated[list[str], Field(min_length=3)]
    days: Counting
    levels: dict[str, Level]
    camp: list[int]
    """Where the store and the ship are, on the level of height 0."""
    scattered: bool
    """Sailors begin on random tiles of the ground, not at the camp."""
    backpack: Counting
    """Units that a sailor can carry."""
    pile_amount: Counting
    """Units in a new pile."""
    gather_amount: Counting
    """Units that one GATHER takes at the most."""
    resources: list[str]
    food: dict[str, Counting]
    """Food type to the energy that it restores."""
    poison_type: str
    antidote_type: str
    components: dict[str, Component]
    builders: Counting
    """Living sailors that must stand at the camp for a BUILD."""
    phases: Annotated[list[Phase], Field(min_length=1)]
    quorum: Counting
    """With fewer living sailors no vote can be called."""
    majority: Percent
    """A sailor is ejected by more than this share of the living."""
    mistakes: Counting
    """After so many ejected innocents nobody can call a vote any more."""
    vote_turns: Counting
    """A vote closes so many turns after it was called, or with its phase."""
    message_length: Counting
    energy: Energy
    poison: Poison
    sabotage_points: list[Percent]
    """Least and most progress that a component loses."""
    sabotage_range: Natural
    """A saboteur must be at most this far from the ship."""
    evidence: Evidence
    weather: Weather | None
    tiers: Tiers | None
    energy_high: Natural
    energy_low: Natural
    named_limit: Natural
    colonist: RolePay
    traitor: RolePay
    least_alive: Counting
    """With fewer sailors alive the traitor wins."""

    @cached_property
    def materials(self) -> tuple[str, ...]:
        """Resource types that the ship is made of, in the order of `resources`."""
        costs = [part.step_cost for part in self.components.values()]
        return tuple(kind for kind in self.resources if any(kind in cost for cost in costs))

    @cached_property
    def turns_per_day(self) -> int:
        """Turns from dawn to dawn."""
        return sum(phase.turns for phase in self.phases)

    @cached_property
    def ground(self) -> str:
        """The name of the level with the camp."""
        return next(name for name, level in self.levels.items() if level.height == 0)

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        heights = sorted(level.height for level in self.levels.values())
        problems = {
            "levels must have distinct heights with one at 0": len(set(heights)) == len(heights) and 0 in heights,
            "component shares must add up to 100": sum(part.share for part in self.components.values()) == 100,
            "a component must come after one that exists": all(
                part.after is None or part.after in self.components for part in self.components.values()
            ),
            "costs, food and piles must be resources": {
                *self.food,
                self.poison_type,
                self.antidote_type,
                *(kind for part in self.components.values() for kind in part.step_cost),
                *(kind for level in self.levels.values() for kind in level.piles),
            }
            <= set(self.resources),
            "crew names must differ": len(set(self.crew)) == len(self.crew),
            "stairs must lead to levels": all(to in self.levels for lv in self.levels.values() for to in lv.stairs),
        }
        for sentence, holds in problems.items():
            if not holds:
                raise ValueError(sentence)
        self._finishable()
        return self

    def _finishable(self) -> None:
        """More than the ship costs must lie on the island; the published island had less (marooned, part 2)."""
        for kind in self.resources:
            needed = sum(part.steps * part.step_cost.get(kind, 0) for part in self.components.values())
            there = self.pile_amount * sum(level.piles.get(kind, 0) for level in self.levels.values())
            if needed > there:
                raise ValueError(f"the ship needs {needed} {kind} but only {there} exist")


@cache
def load_scenario(name: str) -> Scenario:
    """The scenario in `scenarios/NAME.yaml`, checked.

    Raises:
        CastawayError: there is no such scenario, or its data contradict each other.
    """
    folder = resources.files("castaway.envs.marooned") / "scenarios"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")))
        raise CastawayError(f"there is no scenario {name!r}: choose one of {known}")
    try:
        return Scenario.model_validate(YAML(typ="safe").load(path.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the scenario"
        raise CastawayError(f"scenarios/{name}.yaml: {place}: {first['msg']}; correct it there") from None
