"""The observation: everything that one sailor knows.

Prompts, rules, scripted sailors and teachers read nothing else, so hidden state cannot leak into what a sailor is shown
or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from castaway.envs.marooned.scenario import Phase, Scenario
from castaway.envs.marooned.state import Clue, Message, Pile, Place, Sailor, SeenPile, World, distance


@dataclass(frozen=True, slots=True)
class Mate:
    """What a sailor knows about another sailor."""

    name: str
    status: str
    """`alive`, `dead` or `ejected`; all sailors learn of deaths and ejections."""
    place: Place | None
    """Where it is, if in sight; None otherwise. The traitor always knows it."""
    symptoms: str
    """Symptoms of poison, `early` or `severe`, if visible; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one sailor knows at the start of one turn."""

    scenario: Scenario
    day: int
    turn: int
    weather: str
    """The weather of this day: storm, fog, rain, clear, or empty for none."""
    vision: int
    """How far the sailor sees, in tiles (Chebyshev distance)."""
    phase: Phase
    phase_turn: int
    """The turn within the phase, from 1."""
    name: str
    role: str
    place: Place
    camp: Place
    energy: int
    backpack: dict[str, int]
    ate: bool
    symptoms: str
    stair: Place | None
    """Where the stair on this tile leads; None without a stair."""
    store: dict[str, int]
    ship: dict[str, int]
    progress: float
    mates: tuple[Mate, ...]
    piles: tuple[SeenPile, ...]
    """Piles in sight or remembered."""
    clues: tuple[Clue, ...]
    accused: bool
    """Whether the sailor was accused today, and may show its backpack."""
    vote_open: bool
    voted: bool
    vote_over: bool
    """Whether a vote was already held today."""
    mistaken: bool
    """Whether too many innocents were ejected, so that no more votes can be called."""
    messages: tuple[Message, ...]
    """The newest messages, oldest first: said aloud by anyone, or told to or by this sailor."""
    messages_left: int
    """How many messages the sailor may still send in this phase; 0 also while it must wait after the last one."""
    framed: bool
    sos_sent: bool
    note: str
    """The result of its last action, as a sentence, or empty."""

    @property
    def load(self) -> int:
        """Units in the backpack."""
        return sum(self.backpack.values())

    @property
    def at_camp(self) -> bool:
        """Whether the sailor is at the camp."""
        return self.place == self.camp

    def mate(self, name: str) -> Mate | None:
        """The other sailor with this name, or None."""
        return next((mate for mate in self.mates if mate.name == name), None)

    def here(self) -> list[SeenPile]:
        """Piles on the sailor's own tile."""
        return [pile for pile in self.piles if pile.place == self.place]


def phase_at(scenario: Scenario, turn: int) -> tuple[Phase, int]:
    """The phase of a turn of the day, and the turn within the phase; both turns count from 1.

    Raises:
        IndexError: the day has fewer turns.
    """
    for phase in scenario.phases:
        if turn <= phase.turns:
            return phase, turn
        turn -= phase.turns
    raise IndexError("a turn after the end of the day")


def symptoms_of(sailor: Sailor, world: World) -> str:
    """The visible symptoms of poison: `early`, `severe`, or empty."""
    if sailor.poisoned_on is None or not sailor.alive:
        return ""
    days = world.day - sailor.poisoned_on
    rules = world.scenario.poison
    return "severe" if days >= rules.severe else "early" if days >= rules.early else ""


def observe(world: World, sailor: Sailor) -> Observation:
    """Make the sailor's observation; this also updates its memory of piles."""
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
    """The piles in sight, found by going through all piles or through the tiles in sight, whichever are fewer."""
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
