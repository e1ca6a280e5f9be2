"""A scenario: all sizes, costs, counts, limits and rewards of a game of MAROONED, as checked data.

The rules are the same for all scenarios. `scenarios/classic.yaml` is the published island; `scenarios/skiff.yaml` is
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
    """The base class of all parts of a scenario: frozen and strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Level(Data):
    """One level of the island: x grows east, y grows south."""

    height: int
    """The z coordinate: CLIMB UP leads to a level of greater height."""
    width: Counting
    depth: Counting
    vision: Natural
    """How far a sailor sees, in tiles (Chebyshev distance)."""
    stairs: dict[str, list[int] | None]
    """Level that a stair leads to, and the stair's place [x, y]; null for a random place."""
    piles: dict[str, Natural]
    """Resource type to number of piles."""


class Component(Data):
    """A component of the ship. It is built in equal steps with materials from the common store."""

    share: Percent
    """Its share of the ship's progress, in percent."""
    step_cost: dict[str, Counting]
    """Resource to the units that one BUILD takes from the store."""
    steps: Counting
    """Number of BUILDs that finish it."""
    after: str | None
    """The component that must be finished first, if any."""


class Phase(Data):
    """A phase of the day. Phases follow each other in the order of the list."""

    name: Literal["morning", "exploration", "evening", "discussion"]
    turns: Counting
    work: bool
    """Whether sailors may move, climb, gather, poison and sabotage."""
    vote: bool
    """Whether sailors may accuse, call votes, vote and be searched."""
    messages: Natural
    """Number of messages that a sailor may send in the phase."""
    message_every: Counting
    """Smallest number of turns from one message of a sailor to its next one."""


class Energy(Data):
    """The energy that work costs. The traitor pays `traitor_discount` percent less, rounded up."""

    start: Counting
    most: Counting
    walk: Natural
    climb_up: Natural
    climb_down: Natural
    gather: Natural
    build: Natural
    traitor_discount: Percent
    fed: Natural
    """Energy gained at dawn by a sailor that ate the day before."""
    hungry: Natural
    """Energy lost at dawn by a sailor that did not; a sailor without energy dies."""


class Poison(Data):
    """When poison has an effect, in days since the poisoning: early symptoms, severe symptoms, death."""

    early: Counting
    severe: Counting
    death: Counting


class Evidence(Data):
    """Strengths of the entries of the public log, 0 to 100; null switches a kind of entry off."""

    witness: Natural
    """Largest distance at which a sailor recognises what another one does, in tiles."""
    sabotage: Percent | None
    poison_collected: Percent | None
    suspicious_death: Percent | None
    location_mismatch: Percent | None
    resource_theft: Percent | None
    theft_margin: Percent
    """A theft is logged if at the end of a day more than this percentage of the gathered material was not deposited."""
    false_information: Percent | None
    framing: list[Percent]
    """Lowest and highest strength of planted evidence."""


class RolePay(Data):
    """The rewards of one role, by event."""

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
    ballot_right: float
    """For a ballot against the traitor, whatever comes of the vote."""
    ballot_wrong: float
    """For a ballot against an innocent sailor."""
    energy_high: float
    energy_low: float
    sabotage: float
    poison_kill: float
    named: float
    """Added once, when a sailor is named in more than `Scenario.named_limit` entries of evidence."""


class Weather(Data):
    """Some days have storm, fog, rain or clear skies, each with the same probability; the others have no weather."""

    chance: Percent
    """Probability that a day has weather, in percent."""
    fog_vision: Natural
    """How far sailors see in fog, at most, in tiles."""
    rain_cost: Counting
    """Cost of work in rain, in percent of the normal cost; in a storm there is no work."""
    clear_cost: Counting
    """Cost of work under clear skies, in percent of the normal cost."""


class Tiers(Data):
    """How much of the reward for success a victory gives."""

    survivors: dict[int, Percent]
    """For the crew: smallest number of colonists alive to percent of the reward; 0 with fewer."""
    progress: dict[int, Percent]
    """For the traitor: progress that the ship stayed below to percent of the reward; 0 above all."""


class Scenario(Data):
    """All data of a game."""

    name: str
    crew: Annotated[list[str], Field(min_length=3)]
    days: Counting
    levels: dict[str, Level]
    camp: list[int]
    """The tile [x, y] of store and ship, on the level of height 0."""
    scattered: bool
    """Whether sailors begin on random tiles of the ground level instead of at the camp."""
    backpack: Counting
    """Largest number of units that a sailor can carry."""
    pile_amount: Counting
    """Units in a new pile."""
    gather_amount: Counting
    """Largest number of units that one GATHER takes."""
    resources: list[str]
    food: dict[str, Counting]
    """Food to the energy that one unit restores."""
    poison_type: str
    antidote_type: str
    components: dict[str, Component]
    builders: Counting
    """Number of living sailors that must be at the camp for a BUILD."""
    phases: Annotated[list[Phase], Field(min_length=1)]
    quorum: Counting
    """Smallest number of living sailors with which a vote can be called."""
    majority: Percent
    """A sailor is ejected by the votes of more than this percentage of the living sailors."""
    mistakes: Counting
    """Number of ejected innocents after which no more votes can be called."""
    vote_turns: Counting
    """Number of turns that a vote is open, if its phase does not end before."""
    message_length: Counting
    """Largest length of a message, in characters."""
    energy: Energy
    poison: Poison
    sabotage_points: list[Percent]
    """Lowest and highest number of points that a component loses by SABOTAGE."""
    sabotage_range: Natural
    """Largest distance from the ship at which it can be sabotaged, in tiles."""
    evidence: Evidence
    weather: Weather | None
    tiers: Tiers | None
    energy_high: Natural
    energy_low: Natural
    named_limit: Natural
    colonist: RolePay
    traitor: RolePay
    least_alive: Counting
    """The traitor wins if fewer sailors are alive."""

    @cached_property
    def materials(self) -> tuple[str, ...]:
        """Resources that the ship is made of, in the order of `resources`."""
        costs = [part.step_cost for part in self.components.values()]
        return tuple(kind for kind in self.resources if any(kind in cost for cost in costs))

    @cached_property
    def turns_per_day(self) -> int:
        """Number of turns in a day."""
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
        """Check that the island holds enough material for the ship; the published island did not (marooned, part 2)."""
        for kind in self.resources:
            needed = sum(part.steps * part.step_cost.get(kind, 0) for part in self.components.values())
            there = self.pile_amount * sum(level.piles.get(kind, 0) for level in self.levels.values())
            if needed > there:
                raise ValueError(f"the ship needs {needed} {kind} but only {there} exist")


@cache
def load_scenario(name: str) -> Scenario:
    """Read and check the scenario in `scenarios/NAME.yaml`.

    Raises:
        CastawayError: there is no such scenario, or its data are wrong or contradictory.
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
