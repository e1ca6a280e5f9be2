"""The complete state of a game, which the engine knows and no sailor is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from castaway.envs.marooned.scenario import Scenario

Place = tuple[str, int, int]
"""Level name, x, y; x grows east and y south."""


@dataclass(slots=True)
class Pile:
    """A pile of one resource on one tile."""

    id: str
    kind: str
    place: Place
    amount: int
    fresh: bool = True
    """Whether it is an original pile. Only gathering those is rewarded; otherwise dropping and gathering in turn would
    give unlimited reward."""


@dataclass(frozen=True, slots=True)
class SeenPile:
    """A pile as a sailor last saw it."""

    id: str
    kind: str
    place: Place
    amount: int


@dataclass(slots=True)
class Sailor:
    """The true state of one sailor."""

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
    """Whether it has used its only FRAME."""
    messages: int = 0
    """Number of messages sent in this phase."""
    last_message: int = -1_000_000
    """The turn of the game (`World.clock`) in which it sent its last message."""
    sos_on: int = 0
    """The day of its last SOS; 0 for none."""
    gathered: int = 0
    handed_in: int = 0
    """Units of ship material gathered and deposited today, for the log of thefts."""
    named: int = 0
    """Number of entries of evidence that name it."""
    seen: dict[str, SeenPile] = field(default_factory=dict)
    """The piles that it remembers, by id."""
    known: tuple[SeenPile, ...] = ()
    """The same in the order of the ids; kept so that it is not sorted in every turn."""
    inbox: list[Message] = field(default_factory=list)
    note: str = ""
    """The result of its last action, shown to this sailor only."""

    @property
    def load(self) -> int:
        """Units in the backpack."""
        return sum(self.backpack.values())


@dataclass(frozen=True, slots=True)
class Message:
    """A message said aloud (`to` is empty) or told to one sailor."""

    day: int
    turn: int
    speaker: str
    to: str
    text: str


@dataclass(frozen=True, slots=True)
class Clue:
    """An entry of the public log. Planted entries look like true ones."""

    day: int
    turn: int
    kind: str
    about: str
    """The sailor that it names, or empty."""
    strength: int
    text: str


@dataclass(slots=True)
class Vote:
    """A vote in progress."""

    called_by: str
    closes: int
    """The turn of the game (`World.clock`) at whose end the votes are counted."""
    ballots: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The complete state of a game."""

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
    """Resource to the units used for the ship so far."""
    credited: dict[str, int] = field(default_factory=dict)
    """Resource to the highest sum of store and spent so far. Only a deposit above it is rewarded; otherwise TAKE and
    DEPOSIT in turn would give unlimited reward."""
    ship: dict[str, int] = field(default_factory=dict)
    """Component to its points, 0 to 100."""
    clues: list[Clue] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """All messages said aloud."""
    accused: set[str] = field(default_factory=set)
    """Sailors accused today, who may show their backpacks."""
    weather: str = ""
    """The weather of this day: storm, fog, rain, clear, or empty for none."""
    vote: Vote | None = None
    voted_today: bool = False
    mistakes: int = 0
    """Number of ejected innocents."""
    milestones: set[str] = field(default_factory=set)
    dropped: int = 0
    winner: str = ""
    ending: str = ""

    @property
    def clock(self) -> int:
        """Number of turns of the game before this one."""
        return (self.day - 1) * self.scenario.turns_per_day + self.turn - 1

    @property
    def living(self) -> list[Sailor]:
        """The sailors that are neither dead nor ejected, in the order of the crew."""
        return [sailor for sailor in self.sailors.values() if sailor.alive]

    @property
    def progress(self) -> float:
        """Ship progress in percent."""
        return sum(part.share * self.ship[name] for name, part in self.scenario.components.items()) / 100


def distance(a: Place, b: Place) -> int:
    """Chebyshev distance in tiles; across levels a very large number: sailors see and reach only their own level."""
    return max(abs(a[1] - b[1]), abs(a[2] - b[2])) if a[0] == b[0] else 1_000_000
