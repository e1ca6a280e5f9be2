"""A scenario: all sizes, costs, counts, limits and rewards of a game of MAROONED, as checked data.

The rules are the same for all scenarios. `scenarios/classic.yaml` is the published island; `scenarios/skiff.yaml` is
one that a model of a million parameters can learn on a laptop.
"""

from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field
from ruamel.yaml import YAML

from castaway.config.errors import CastawayError
from castaway.config.section import Natural, PositiveInteger, Section

Repertoire = Literal["core", "whole"]
"""Which actions scripted sailors play and the compact rendering prepares: those that the game turns on, or, where they
make sense, all of them: talk, accusations, searches, poison, antidotes, gifts and other levels too."""
Percent = Annotated[int, Field(ge=0, le=100)]


class Level(Section):
    """One level of the island: x grows east, y grows south."""

    height: int  # the z coordinate: CLIMB UP leads to a level of greater height
    width: PositiveInteger
    depth: PositiveInteger
    vision: Natural  # how far a sailor sees, in tiles (Chebyshev distance)
    stairs: dict[str, list[int] | None]  # level that a stair leads to, and its place [x, y]; null for a random one
    piles: dict[str, Natural]  # resource to number of piles


class Component(Section):
    """A component of the ship. It is built in equal steps with materials from the common store."""

    share: Percent  # its share of the ship's progress, in percent
    step_cost: dict[str, PositiveInteger]  # resource to the units that one BUILD takes from the store
    steps: PositiveInteger  # number of BUILDs that finish it
    after: str | None  # the component that must be finished first


class Phase(Section):
    name: Literal["morning", "exploration", "evening", "discussion"]
    turns: PositiveInteger
    work: bool  # whether sailors may move, climb, gather, poison and sabotage
    vote: bool  # whether sailors may accuse, call votes, vote and be searched
    messages: Natural
    message_every: PositiveInteger  # smallest number of turns from one message of a sailor to its next one


class Energy(Section):
    """The energy that work costs. The traitor pays `traitor_discount` percent less, rounded up."""

    start: PositiveInteger
    most: PositiveInteger
    walk: Natural
    climb_up: Natural
    climb_down: Natural
    gather: Natural
    build: Natural
    traitor_discount: Percent
    fed: Natural  # energy gained at dawn by a sailor that ate the day before
    hungry: Natural  # energy lost at dawn by a sailor that did not; a sailor without energy dies


class Poison(Section):
    """When poison has an effect, in days since the poisoning: early symptoms, severe symptoms, death."""

    early: PositiveInteger
    severe: PositiveInteger
    death: PositiveInteger


class Evidence(Section):
    """Strengths of the entries of the public log, 0 to 100; null switches it off."""

    witness: Natural  # largest distance at which a sailor recognises what another one does, in tiles
    sabotage: Percent
    poison_collected: Percent
    suspicious_death: Percent
    location_mismatch: Percent | None
    resource_theft: Percent | None
    theft_margin: Percent  # a theft is more than this percentage of a day's gathered material that was not deposited
    false_information: Percent
    framing: list[Percent]  # lowest and highest strength of planted evidence


class RoleRewards(Section):
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
    ballot_right: float  # for a ballot against the traitor, whatever comes of the vote
    ballot_wrong: float  # for a ballot against an innocent sailor
    energy_high: float
    energy_low: float
    sabotage: float
    poison_kill: float
    named: float  # added once, when a sailor is named in more than `Scenario.named_limit` entries of evidence


class Scenario(Section):
    name: str
    crew: Annotated[list[str], Field(min_length=3)]
    days: PositiveInteger
    levels: dict[str, Level]
    camp: list[int]  # the tile [x, y] of store and ship, on the level of height 0
    scattered: bool  # whether sailors begin on random tiles of the ground level instead of at the camp
    backpack: PositiveInteger  # largest number of units that a sailor can carry
    pile_amount: PositiveInteger  # units in a new pile
    gather_amount: PositiveInteger  # largest number of units that one GATHER takes
    resources: list[str]
    food: dict[str, PositiveInteger]  # food to the energy that one unit restores
    poison_type: str
    antidote_type: str
    components: dict[str, Component]
    builders: PositiveInteger  # number of living sailors that must be at the camp for a BUILD
    phases: Annotated[list[Phase], Field(min_length=1)]
    quorum: PositiveInteger  # smallest number of living sailors with which a vote can be called
    majority: Percent  # a sailor is ejected by the votes of more than this percentage of the living sailors
    mistakes: PositiveInteger  # number of ejected innocents after which no more votes can be called
    vote_turns: PositiveInteger  # number of turns that a vote is open, if its phase does not end before
    message_length: PositiveInteger  # most characters of a message
    energy: Energy
    poison: Poison
    sabotage_points: list[Percent]  # lowest and highest number of points that a component loses by SABOTAGE
    sabotage_range: Natural  # largest distance from the ship at which it can be sabotaged, in tiles
    evidence: Evidence
    energy_high: Natural
    energy_low: Natural
    named_limit: Natural
    colonist: RoleRewards
    traitor: RoleRewards
    least_alive: PositiveInteger  # the traitor wins if fewer sailors are alive
    # What a run's `game` section may set; the files of the scenarios do not.
    turns: PositiveInteger | None = None  # a budget: after so many turns the game ends as on its last day
    repertoire: Repertoire = "core"

    @cached_property
    def materials(self) -> tuple[str, ...]:
        """Resources that the ship is made of, in the order of `resources`."""
        costs = [part.step_cost for part in self.components.values()]
        return tuple(kind for kind in self.resources if any(kind in cost for cost in costs))

    @cached_property
    def turns_per_day(self) -> int:
        return sum(phase.turns for phase in self.phases)

    @cached_property
    def ground(self) -> str:
        return next(name for name, level in self.levels.items() if level.height == 0)


@cache
def load_scenario(name: str, turns: int | None = None, repertoire: Repertoire = "core") -> Scenario:
    """The scenario in `scenarios/NAME.yaml`, with what a run sets; CastawayError if there is none."""
    folder = resources.files("castaway.envs.marooned") / "scenarios"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")))
        raise CastawayError(f"there is no scenario {name!r}: choose one of {known}")
    data = YAML(typ="safe").load(path.read_text("utf-8"))
    return Scenario.model_validate({**data, "turns": turns, "repertoire": repertoire})
