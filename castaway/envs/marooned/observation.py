"""The observation: everything that one sailor knows.

Prompts, rules, scripted sailors and teachers read nothing else, so hidden state cannot leak into what a sailor is shown
or refused.
"""

from dataclasses import dataclass

from castaway.envs.marooned.scenario import Phase, Scenario
from castaway.envs.marooned.state import Clue, Message, Place, Sailor, SeenPile, World, distance


@dataclass(frozen=True, slots=True)
class Mate:
    name: str
    status: str  # `alive`, `dead` or `ejected`; all sailors learn of deaths and ejections
    place: Place | None  # where it is, if in sight; None otherwise. The traitor always knows it
    symptoms: str  # symptoms of poison, `early` or `severe`, if visible; otherwise empty


@dataclass(frozen=True, slots=True)
class Observation:
    scenario: Scenario
    day: int
    turn: int
    vision: int  # how far the sailor sees, in tiles (Chebyshev distance)
    phase: Phase
    name: str
    role: str
    place: Place
    camp: Place
    energy: int
    backpack: dict[str, int]
    ate: bool
    symptoms: str
    stair: Place | None  # where the stair on this tile leads
    store: dict[str, int]
    ship: dict[str, int]
    mates: tuple[Mate, ...]
    piles: tuple[SeenPile, ...]  # piles in sight or remembered
    clues: tuple[Clue, ...]
    accused: bool  # whether the sailor was accused today, and may show its backpack
    vote_open: bool
    voted: bool
    vote_over: bool  # whether a vote was held today already
    mistaken: bool  # whether too many innocents were ejected, so that no more votes can be called
    messages: tuple[Message, ...]  # the newest ones, oldest first: said aloud, or told to or by this sailor
    messages_left: int  # how many it may still send in this phase; 0 also while it must wait after its last one
    framed: bool
    sos_sent: bool
    note: str  # the result of its last action, as a sentence, or empty

    @property
    def load(self) -> int:
        return sum(self.backpack.values())

    @property
    def at_camp(self) -> bool:
        return self.place == self.camp

    def mate(self, name: str) -> Mate | None:
        return next((mate for mate in self.mates if mate.name == name), None)

    def here(self) -> list[SeenPile]:
        return [pile for pile in self.piles if pile.place == self.place]


def phase_at(scenario: Scenario, turn: int) -> tuple[Phase, int]:
    """The phase of a turn of the day, and the turn within the phase; both turns count from 1."""
    for phase in scenario.phases:
        if turn <= phase.turns:
            return phase, turn
        turn -= phase.turns
    raise IndexError("a turn after the end of the day")


def symptoms_of(sailor: Sailor, world: World) -> str:
    if sailor.poisoned_on is None or not sailor.alive:
        return ""
    days = world.day - sailor.poisoned_on
    rules = world.scenario.poison
    return "severe" if days >= rules.severe else "early" if days >= rules.early else ""


def observe(world: World, sailor: Sailor) -> Observation:
    """Make the sailor's observation; this also updates its memory of piles."""
    scenario = world.scenario
    phase, _ = phase_at(scenario, world.turn)
    vision = scenario.levels[sailor.place[0]].vision
    rested = world.clock - sailor.last_message
    _look(world, sailor, vision)
    return Observation(
        scenario=scenario,
        day=world.day,
        turn=world.turn,
        vision=vision,
        phase=phase,
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
        mates=tuple(_mate(world, sailor, other, vision) for other in world.sailors.values() if other is not sailor),
        piles=sailor.known,
        clues=tuple(world.clues),
        accused=sailor.name in world.accused,
        vote_open=world.vote is not None,
        voted=world.vote is not None and sailor.name in world.vote.ballots,
        vote_over=world.voted_today,
        mistaken=world.mistakes >= scenario.mistakes,
        messages=tuple(sailor.inbox[-6:]),
        messages_left=max(0, phase.messages - sailor.messages) if rested >= phase.message_every else 0,
        framed=sailor.framed,
        sos_sent=sailor.sos_on == world.day,
        note=sailor.note,
    )


def _look(world: World, sailor: Sailor, vision: int) -> None:
    seen, changed = sailor.seen, False
    level, x, y = sailor.place
    rows, columns = range(y - vision, y + vision + 1), range(x - vision, x + vision + 1)
    tiles = [world.by_place.get((level, column, row), ()) for row in rows for column in columns]
    for pile in (world.piles[id] for ids in tiles for id in ids if id in world.piles):
        known = seen.get(pile.id)
        if known is None or known.amount != pile.amount:
            seen[pile.id] = SeenPile(pile.id, pile.kind, pile.place, pile.amount)
            changed = True
    gone = [id for id in seen if id not in world.piles and distance(seen[id].place, sailor.place) <= vision]
    for id in gone:
        del seen[id]
    if changed or gone:
        sailor.known = tuple(pile for _, pile in sorted(seen.items()))


def _mate(world: World, sailor: Sailor, other: Sailor, vision: int) -> Mate:
    if not other.alive:
        return Mate(other.name, "ejected" if other.ejected else "dead", None, "")
    in_sight = distance(sailor.place, other.place) <= vision
    known = in_sight or sailor.role == "traitor"
    return Mate(other.name, "alive", other.place if known else None, symptoms_of(other, world) if in_sight else "")
