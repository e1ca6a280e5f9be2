"""Games that tests lay out by hand."""

from __future__ import annotations

from castaway.envs.marooned.actions import Action, parse_action, read
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.scenario import Repertoire, Scenario, load_scenario
from castaway.envs.marooned.state import Pile, Place, Sailor
from castaway.tasks.environment import Refusal


class Table(Game):
    """A game whose pieces a test may move before each turn."""

    def __init__(self, scenario: str = "classic", seed: int = 1, repertoire: Repertoire = "core") -> None:
        super().__init__(load_scenario(scenario, repertoire=repertoire), seed)

    @property
    def scenario(self) -> Scenario:
        return self.world.scenario

    @property
    def traitor(self) -> Sailor:
        return next(sailor for sailor in self.world.sailors.values() if sailor.role == "traitor")

    @property
    def colonists(self) -> list[Sailor]:
        return [sailor for sailor in self.world.sailors.values() if sailor.role == "colonist"]

    def phase(self, name: str) -> Table:
        """Go to the first turn of a phase."""
        turn = 1
        for phase in self.scenario.phases:
            if phase.name == name:
                break
            turn += phase.turns
        self.world.turn = turn
        self._observations = {}
        return self

    def put(self, sailor: Sailor, place: Place | None = None, energy: int | None = None, **backpack: int) -> Sailor:
        """Place a sailor and fill its backpack."""
        sailor.place = place or sailor.place
        sailor.energy = sailor.energy if energy is None else energy
        sailor.backpack.update(backpack)
        self._observations = {}
        return sailor

    def lay(self, pile_id: str, kind: str, place: Place, amount: int = 3) -> None:
        """Put a pile of nature's own somewhere."""
        self.world.piles[pile_id] = Pile(pile_id, kind, place, amount)
        self.world.by_place.setdefault(place, []).append(pile_id)
        self._observations = {}

    def read(self, sailor: Sailor, text: str) -> tuple[Action | None, Refusal | None]:
        """What the rules say of a text, in the world as it is now."""
        self._observations = {}
        return read(self.observation(sailor.name), text)

    def sentence(self, sailor: Sailor, text: str) -> str:
        """Why a text is refused, or empty."""
        refusal = self.read(sailor, text)[1]
        return refusal.sentence if refusal else ""

    def do(self, **typed: str) -> dict[str, float]:
        """One turn; every text must be legal."""
        self._observations = {}
        actions = {}
        for name, text in typed.items():
            assert self.sentence(self.world.sailors[name], text) == ""
            action = parse_action(text)
            assert action is not None
            actions[name] = action
        return self.step(actions)

    def wait(self, turns: int = 1) -> None:
        """Turns in which nobody does anything."""
        for _ in range(turns):
            self.do()

    def matter(self) -> dict[str, int]:
        """Units of each resource in the world, in piles, backpacks, store and ship."""
        total: dict[str, int] = {}
        boxes = [{pile.kind: pile.amount} for pile in self.world.piles.values()]
        boxes += [sailor.backpack for sailor in self.world.sailors.values()]
        boxes += [self.world.store, self.world.spent]
        for box in boxes:
            for kind, amount in box.items():
                assert amount > 0
                total[kind] = total.get(kind, 0) + amount
        return total
