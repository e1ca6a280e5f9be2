"""The complete state of a game, which the engine knows and no sailor is shown, and how a new game begins."""

from dataclasses import dataclass, field
from random import Random

from castaway.envs.marooned.scenario import Scenario

Place = tuple[str, int, int]  # level name, x, y; x grows east and y south


@dataclass(frozen=True, slots=True)
class Message:
    """A message said aloud (`to` is empty) or told to one sailor."""

    day: int
    turn: int
    speaker: str
    to: str
    text: str


@dataclass(slots=True)
class Pile:
    id: str
    kind: str
    place: Place
    amount: int
    fresh: bool = True
    """Original: only gathering those is rewarded, or dropping and gathering in turn would give unlimited reward."""


@dataclass(frozen=True, slots=True)
class SeenPile:
    id: str
    kind: str
    place: Place
    amount: int


@dataclass(slots=True)
class Sailor:
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
    framed: bool = False  # whether it has used its only FRAME
    messages: int = 0  # sent in this phase
    last_message: int = -1_000_000  # the turn of the game (`World.clock`) in which it sent its last message
    sos_on: int = 0  # the day of its last SOS; 0 for none
    gathered: int = 0
    handed_in: int = 0  # units of ship material gathered and deposited today, for the log of thefts
    named: int = 0  # number of entries of evidence that name it
    seen: dict[str, SeenPile] = field(default_factory=dict)
    known: tuple[SeenPile, ...] = ()  # the same in the order of the ids; kept so that it is not sorted in every turn
    inbox: list[Message] = field(default_factory=list)
    note: str = ""  # the result of its last action, shown to this sailor only

    @property
    def load(self) -> int:
        return sum(self.backpack.values())


@dataclass(frozen=True, slots=True)
class Clue:
    """An entry of the public log. Planted entries look like true ones."""

    day: int
    turn: int
    kind: str
    about: str  # the sailor that it names, or empty
    strength: int
    text: str


@dataclass(slots=True)
class Vote:
    called_by: str
    closes: int  # the turn of the game (`World.clock`) at whose end the votes are counted
    ballots: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class World:
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
    spent: dict[str, int] = field(default_factory=dict)  # resource to the units used for the ship so far
    credited: dict[str, int] = field(default_factory=dict)
    """The highest sum of store and spent so far: only a deposit above it is rewarded, for the same reason."""
    ship: dict[str, int] = field(default_factory=dict)  # component to its points, 0 to 100
    clues: list[Clue] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    accused: set[str] = field(default_factory=set)
    vote: Vote | None = None
    voted_today: bool = False
    mistakes: int = 0  # ejected innocents
    milestones: set[str] = field(default_factory=set)
    dropped: int = 0
    winner: str = ""
    ending: str = ""

    @property
    def clock(self) -> int:
        return (self.day - 1) * self.scenario.turns_per_day + self.turn - 1

    @property
    def living(self) -> list[Sailor]:
        """The sailors that are neither dead nor ejected, in the order of the crew."""
        return [sailor for sailor in self.sailors.values() if sailor.alive]

    @property
    def progress(self) -> float:
        return sum(part.share * self.ship[name] for name, part in self.scenario.components.items()) / 100


def distance(a: Place, b: Place) -> int:
    """Chebyshev distance in tiles; across levels a very large number: sailors see and reach only their own level."""
    return max(abs(a[1] - b[1]), abs(a[2] - b[2])) if a[0] == b[0] else 1_000_000


def new_world(scenario: Scenario, seed: int) -> World:
    random = Random(seed)
    camp: Place = (scenario.ground, scenario.camp[0], scenario.camp[1])
    traitor = random.choice(scenario.crew)
    sailors = {
        name: Sailor(name, "traitor" if name == traitor else "colonist", place, scenario.energy.start)
        for name, place in zip(scenario.crew, _landings(scenario, camp, random), strict=True)
    }
    stairs = _stairs(scenario, camp, random)
    piles = _piles(scenario, {camp, *stairs}, random)
    by_place: dict[Place, list[str]] = {}
    for pile in piles.values():
        by_place.setdefault(pile.place, []).append(pile.id)
    return World(scenario, random, sailors, piles, by_place, stairs, camp, ship=dict.fromkeys(scenario.components, 0))


def _landings(scenario: Scenario, camp: Place, random: Random) -> list[Place]:
    if not scenario.scattered:
        return [camp] * len(scenario.crew)
    level = scenario.levels[scenario.ground]
    return [(scenario.ground, random.randrange(level.width), random.randrange(level.depth)) for _ in scenario.crew]


def _stairs(scenario: Scenario, camp: Place, random: Random) -> dict[Place, Place]:
    """Place of each stair to that of the stair back; without a fixed place on a random tile that is free."""
    places: dict[tuple[str, str], Place] = {}
    for name, level in scenario.levels.items():
        for other, where in level.stairs.items():
            taken = {camp, *places.values()}
            # The camp is always taken, so it stands for "not placed yet".
            place: Place = (name, where[0], where[1]) if where else camp
            while place in taken:
                place = (name, random.randrange(level.width), random.randrange(level.depth))
            places[name, other] = place
    return {place: places[other, name] for (name, other), place in places.items()}


def _piles(scenario: Scenario, taken: set[Place], random: Random) -> dict[str, Pile]:
    piles, counts = dict[str, Pile](), dict[str, int]()
    for name, level in scenario.levels.items():
        tiles = [(name, x, y) for y in range(level.depth) for x in range(level.width) if (name, x, y) not in taken]
        kinds = [kind for kind, count in level.piles.items() for _ in range(count)]
        if len(kinds) > len(tiles):
            # More piles than tiles: list each tile often enough, so that several piles may share one.
            tiles = tiles * (len(kinds) // len(tiles) + 1)
        for kind, place in zip(kinds, random.sample(tiles, len(kinds)), strict=True):
            counts[kind] = counts.get(kind, 0) + 1
            pile_id = f"{kind.upper()}_{counts[kind]}"
            piles[pile_id] = Pile(pile_id, kind, place, scenario.pile_amount)
    return piles
