"""The whole truth about a game in progress: what the engine knows and no sailor is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from castaway.envs.marooned.scenario import Scenario

Place = tuple[str, int, int]
"""Level, x, y."""


@dataclass(slots=True)
class Pile:
    """A heap of one resource on one tile."""

    id: str
    kind: str
    place: Place
    amount: int
    fresh: bool = True
    """Nature's own: gathering it is paid. What a sailor dropped is not, or dropping would mint rewards."""


@dataclass(frozen=True, slots=True)
class SeenPile:
    """A pile as a sailor saw it last."""

    id: str
    kind: str
    place: Place
    amount: int


@dataclass(slots=True)
class Sailor:
    """One sailor as it really is."""

    name: str
    role: str
    place: Place
    energy: int
    backpack: dict[str, int] = field(default_factory=dict)
    alive: bool = True
    ejected: bool = False
    ate: bool = False
    poisoned_on: int | None = None
    poisoner: str | None = None
    framed: bool = False
    """Has used its one FRAME."""
    messages: int = 0
    """Sent in this phase."""
    last_message: int = -1_000_000
    """The turn of the game in which it last sent one."""
    sos_on: int = 0
    """The day of its last SOS."""
    gathered: int = 0
    handed_in: int = 0
    """Ship materials gathered and deposited, for the tally of thefts."""
    named: int = 0
    """Entries of evidence that name it."""
    seen: dict[str, SeenPile] = field(default_factory=dict)
    """What it remembers of piles, by their ids."""
    known: tuple[SeenPile, ...] = ()
    """The same in the order of the ids, as of its last look."""
    inbox: list[Message] = field(default_factory=list)
    note: str = ""
    """What became of its last action, told to it alone."""

    @property
    def load(self) -> int:
        """Units carried."""
        return sum(self.backpack.values())


@dataclass(frozen=True, slots=True)
class Message:
    """Something said aloud (`to` is empty) or told to one sailor."""

    day: int
    turn: int
    speaker: str
    to: str
    text: str


@dataclass(frozen=True, slots=True)
class Clue:
    """An entry of the public log. Planted ones look like true ones."""

    day: int
    turn: int
    kind: str
    about: str
    """The sailor whom it names, or empty."""
    strength: int
    text: str


@dataclass(slots=True)
class Vote:
    """A vote in progress."""

    called_by: str
    closes: int
    """The turn of the game after which it is counted."""
    ballots: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """Everything."""

    scenario: Scenario
    random: Random
    sailors: dict[str, Sailor]
    piles: dict[str, Pile]
    by_place: dict[Place, list[str]]
    stairs: dict[Place, Place]
    camp: Place
    day: int = 1
    turn: int = 1
    store: dict[str, int] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    """What the ship has swallowed."""
    credited: dict[str, int] = field(default_factory=dict)
    """Highest store + spent so far: only what rises above it is paid, so TAKE and DEPOSIT cannot mint."""
    ship: dict[str, int] = field(default_factory=dict)
    """Component to its points, 0-100."""
    clues: list[Clue] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """Said aloud."""
    accused: set[str] = field(default_factory=set)
    """Asked today to show their backpacks."""
    weather: str = ""
    """Of this day: storm, fog, rain, clear, or empty."""
    vote: Vote | None = None
    voted_today: bool = False
    mistakes: int = 0
    """Innocents that were ejected."""
    milestones: set[str] = field(default_factory=set)
    dropped: int = 0
    winner: str = ""
    ending: str = ""

    @property
    def clock(self) -> int:
        """Turns of the game before this one."""
        return (self.day - 1) * self.scenario.turns_per_day + self.turn - 1

    @property
    def living(self) -> list[Sailor]:
        """Sailors that are alive and aboard, in the order of the crew."""
        return [sailor for sailor in self.sailors.values() if sailor.alive]

    @property
    def progress(self) -> float:
        """Ship progress in percent."""
        return sum(part.share * self.ship[name] for name, part in self.scenario.components.items()) / 100


def distance(a: Place, b: Place) -> int:
    """Chebyshev distance on one level; across levels nobody sees or reaches anybody."""
    return max(abs(a[1] - b[1]), abs(a[2] - b[2])) if a[0] == b[0] else 1_000_000
