"""SimpleNegotiation: what a player has and is offered, read from what it was shown, and a competent trader."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from castaway_textarena.observation import Observation

_OFFER = re.compile(r"Player (\d) made the following offer .*: Offered items: (.*) -> Requested items: (.*)")
_TAKEN = re.compile(r"Player (\d) accepted the trade offer")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a player knows of the trade."""

    values: dict[str, int]
    """What one of each good is worth to it."""
    held: dict[str, int]
    """How many of each good it has."""
    offered: tuple[str, ...]
    """The newest offer of the other player that it has not answered: what it would get, as words; empty for none."""
    asked: tuple[str, ...]
    """What it would have to give."""
    turn: int
    """Number of turns so far."""

    @property
    def gain(self) -> int:
        """What its goods would be worth more after the offer; 0 without one."""
        return self.worth(self.offered) - self.worth(self.asked)

    def worth(self, goods: tuple[str, ...]) -> int:
        """The value of goods, such as `("3", "Ore")`."""
        return sum(int(count) * self.values[good] for count, good in zip(goods[::2], goods[1::2], strict=True))


def standing(seen: Observation) -> Standing:
    """Read it from what the player was shown."""
    listed = re.findall(r"\[(\w+)\]\s+Qty: (\d+)\s+Value: (\d+)", seen.prompt)
    held = {good: int(count) for good, count, _ in listed}
    offer: tuple[int, tuple[str, ...], tuple[str, ...]] | None = None
    turns = 0
    for _, text, kind in seen.shown:
        turns += kind == "PLAYER_ACTION"
        if made := _OFFER.match(text):
            offer = (int(made[1]), _words(made[2]), _words(made[3]))
        elif offer and _TAKEN.match(text):
            sign = -1 if offer[0] == seen.player else 1
            _move(held, offer[1], sign)
            _move(held, offer[2], -sign)
            offer = None
        elif text.endswith("rejected the trade offer."):
            offer = None
    mine = offer is not None and offer[0] != seen.player
    values = {good: int(value) for good, _, value in listed}
    return Standing(values, held, offer[1] if offer and mine else (), offer[2] if offer and mine else (), turns)


def _words(goods: str) -> tuple[str, ...]:
    return tuple(goods.replace(",", " ").split())


def _move(held: dict[str, int], goods: tuple[str, ...], sign: int) -> None:
    for count, good in zip(goods[::2], goods[1::2], strict=True):
        held[good] = held.get(good, 0) + sign * int(count)


def trade(seen: Observation) -> str:
    """A competent move: accept what gains, or else ask for a trade that gains a little, not always the same one."""
    now = standing(seen)
    if now.gain > 0 and "[Accept]" in seen.legal:
        return "[Accept]"
    offers = {}
    for move in seen.legal:
        if made := re.match(r"\[Offer: (.*) -> (.*)\]", move):
            gain = now.worth(_words(made[2])) - now.worth(_words(made[1]))
            if gain > 0:
                offers[move] = gain
    if not offers:
        return "[Deny]"
    # Another player accepts a small loss rather than a large one, or values the goods otherwise.
    small = sorted(offers, key=lambda move: (offers[move], move))[:5]
    return Random(f"{now.turn} {sorted(now.held.items())}").choice(small)
