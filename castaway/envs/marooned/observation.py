"""What one sailor knows: the only thing that prompts, rules of conduct, scripted sailors and teachers may read.

Everything that a sailor is shown or refused is computed from its `Observation`, so nothing can leak that is not in
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from castaway.envs.marooned.scenario import Phase, Scenario
from castaway.envs.marooned.state import Clue, Message, Pile, Place, Sailor, SeenPile, World, distance


@dataclass(frozen=True, slots=True)
class Mate:
    """Another sailor, as this one knows it."""

    name: str
    status: str
    """`alive`, `dead` or `ejected`; deaths and ejections are announced to all."""
    place: Place | None
    """Where it is, if in sight (the traitor always knows)."""
    symptoms: str
    """`early` or `severe`, if in sight and showing; else empty."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One sailor's knowledge at the start of one turn."""

    scenario: Scenario
    day: int
    turn: int
    weather: str
    """Of this day: storm, fog, rain, clear, or empty."""
    vision: int
    """How far it sees."""
    phase: Phase
    phase_turn: int
    """1 in the first turn of the phase."""
    name: str
    role: str
    place: Place
    camp: Place
    energy: int
    backpack: dict[str, int]
    ate: bool
    symptoms: str
    stair: Place | None
    """Where the stair on this tile leads."""
    store: dict[str, int]
    ship: dict[str, int]
    progress: float
    mates: tuple[Mate, ...]
    piles: tuple[SeenPile, ...]
    """Piles in sight or remembered."""
    clues: tuple[Clue, ...]
    accused: bool
    """Asked today to show the backpack."""
    vote_open: bool
    voted: bool
    vote_over: bool
    """Today's vote has been held."""
    mistaken: bool
    """Too many innocents were ejected: there are no more votes."""
    messages: tuple[Message, ...]
    """The newest, oldest first: said aloud by anyone, told to this sailor, or told by it."""
    messages_left: int
    """How many it may still send in this phase; 0 also while it has to wait between two."""
    framed: bool
    sos_sent: bool
    note: str
    """What became of its last action."""

    @property
    def load(self) -> int:
        """Units carried."""
        return sum(self.backpack.values())

    @property
    def at_camp(self) -> bool:
        """Whether it stands at the camp."""
        return self.place == self.camp

    def mate(self, name: str) -> Mate | None:
        """The other sailor of that name."""
        return next((mate for mate in self.mates if mate.name == name), None)

    def here(self) -> list[SeenPile]:
        """Piles on the sailor's own tile."""
        return [pile for pile in self.piles if pile.place == self.place]


def phase_at(scenario: Scenario, turn: int) -> tuple[Phase, int]:
    """The phase of a turn of the day (from 1), and the turn's number within it."""
    for phase in scenario.phases:
        if turn <= phase.turns:
            return phase, turn
        turn -= phase.turns
    raise IndexError("a turn after the end of the day")


def symptoms_of(sailor: Sailor, world: World) -> str:
    """What a look at a sailor shows of the poison in it."""
    if sailor.poisoned_on is None or not sailor.alive:
        return ""
    days = world.day - sailor.poisoned_on
    rules = world.scenario.poison
    return "severe" if days >= rules.severe else "early" if days >= rules.early else ""


def observe(world: World, sailor: Sailor) -> Observation:
    """The sailor's knowledge now; also refreshes its memory of piles in sight."""
    scenario = world.scenario
    phase, phase_turn = phase_at(scenario, world.turn)
    vision = scenario.levels[sailor.place[0]].vision
    if world.weather == "fog" and scenario.weather is not None:
        vision = min(vision, scenario.weather.fog_vision)
    _look(world, sailor, vision)
    return Observation(
        scenario=scenario,
        day=world.day,
        turn=world.turn,
        weather=world.weather,
        vision=vision,
        phase=phase,
        phase_turn=phase_turn,
        name=sailor.name,
        role=sailor.role,
        place=sailor.place,
        camp=world.camp,
        energy=sailor.energy,
        backpack=dict(sorted(sailor.backpack.items())),
        ate=sailor.ate,
        symptoms=symptoms_of(sailor, world),
        stair=world.stairs.get(sailor.place),
        store=dict(sorted(world.store.items())),
        ship=dict(world.ship),
        progress=world.progress,
        mates=tuple(_mate(world, sailor, other, vision) for other in world.sailors.values() if other is not sailor),
        piles=sailor.known,
        clues=tuple(world.clues),
        accused=sailor.name in world.accused,
        vote_open=world.vote is not None,
        voted=world.vote is not None and sailor.name in world.vote.ballots,
        vote_over=world.voted_today,
        mistaken=world.mistakes >= scenario.mistakes,
        messages=tuple(sailor.inbox[-6:]),
        messages_left=_messages_left(world, sailor, phase),
        framed=sailor.framed,
        sos_sent=sailor.sos_on == world.day,
        note=sailor.note,
    )


def _look(world: World, sailor: Sailor, vision: int) -> None:
    """Remember the piles in sight, and forget those that are gone."""
    seen, changed = sailor.seen, False
    for pile in _in_sight(world, sailor.place, vision):
        known = seen.get(pile.id)
        if known is None or known.amount != pile.amount:
            seen[pile.id] = SeenPile(pile.id, pile.kind, pile.place, pile.amount)
            changed = True
    gone = [id for id in seen if id not in world.piles and distance(seen[id].place, sailor.place) <= vision]
    for id in gone:
        del seen[id]
    if changed or gone:
        sailor.known = tuple(pile for _, pile in sorted(seen.items()))


def _in_sight(world: World, place: Place, vision: int) -> list[Pile]:
    """The piles of the tiles in sight, by going through the piles or the tiles, whichever are fewer."""
    if len(world.piles) <= (2 * vision + 1) ** 2:
        return [pile for pile in world.piles.values() if distance(pile.place, place) <= vision]
    level, x, y = place
    rows, columns = range(y - vision, y + vision + 1), range(x - vision, x + vision + 1)
    found = [world.by_place.get((level, column, row)) for row in rows for column in columns]
    return [world.piles[id] for ids in found if ids for id in ids if id in world.piles]


def _mate(world: World, sailor: Sailor, other: Sailor, vision: int) -> Mate:
    if not other.alive:
        return Mate(other.name, "ejected" if other.ejected else "dead", None, "")
    in_sight = distance(sailor.place, other.place) <= vision
    known = in_sight or sailor.role == "traitor"
    return Mate(other.name, "alive", other.place if known else None, symptoms_of(other, world) if in_sight else "")


def _messages_left(world: World, sailor: Sailor, phase: Phase) -> int:
    if world.clock - sailor.last_message < phase.message_every:
        return 0
    return max(0, phase.messages - sailor.messages)
