"""Values of moves in trick-taking card games, by simple heuristics on the hand and the cards on the table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from castaway.envs.openspiel.move_value import MoveValue
from castaway.envs.openspiel.observation import Observation

RANKS = "23456789TJQKA"
"""The ranks, lowest first."""
_SAME_COLOUR = {"C": "S", "S": "C", "D": "H", "H": "D"}


@dataclass(frozen=True, slots=True)
class Trick:
    """The cards on the table in the order of play, each as suit and rank (`HQ`)."""

    cards: tuple[str, ...]
    players: int

    @property
    def last(self) -> bool:
        """Whether the next card completes the trick."""
        return len(self.cards) == self.players - 1


def on_the_table(text: str, players: int, turned: bool) -> Trick:
    """The current, incomplete trick, read from the text of a state; `turned` if cards are written rank first."""
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("Tricks:")), None)
    rows = []
    for line in lines[start + 2 :] if start is not None else []:
        if not line.strip():
            break
        rows.append(line.split())
    last = rows[-1] if rows and len(rows[-1]) < players else []
    return Trick(tuple(card[::-1] if turned else card for card in last), players)


def hearts(observation: Observation) -> list[MoveValue]:
    """Hearts: pass and discard dangerous cards, stay below the highest card of the trick, and lead low."""
    trick = on_the_table(observation.text, 4, turned=True)
    cards = [name[::-1] for name in observation.moves]  # rank first: the queen of spades is QS
    saves = "DJ" if "jd_bonus" in observation.game.variants[observation.variant].parameters else ""
    danger = [
        -20 if card == saves else RANKS.index(card[1]) + 3 * (card[0] == "H") + 30 * (card == "SQ") for card in cards
    ]
    if "Tricks:" not in observation.text:  # the passing of cards before the first trick
        return [MoveValue(amount, "danger" if amount >= 10 else "low") for amount in danger]
    if not trick.cards:
        return [MoveValue(-amount, "lead low" if amount < 8 else "high") for amount in danger]
    led = trick.cards[0][0]
    highest = max(RANKS.index(card[1]) for card in trick.cards if card[0] == led)

    def move_value(card: str, amount: int) -> MoveValue:
        rank = RANKS.index(card[1])
        if card[0] != led:
            return MoveValue(100 + amount, "throw")
        if rank < highest:
            return MoveValue(50 + amount, "duck")
        if saves in trick.cards:
            return MoveValue(80 + rank, "take")
        return MoveValue(rank if trick.last and card != "SQ" else -amount, "take")

    return [move_value(card, amount) for card, amount in zip(cards, danger, strict=True)]


def oh_hell(observation: Observation) -> list[MoveValue]:
    """Oh hell: bid the number of tricks that the high cards promise; win that many, and then avoid tricks."""
    text, players = observation.text, 3
    trump = _after(text, "Trump:")[0]
    if observation.moves[0].isdigit():
        return _bids(observation, trump)
    trick = on_the_table(text.split("Trump:")[1], players, turned=False)
    bid = int(_after(text, "Bids:").split()[observation.seat])
    won = int(_after(text, "Tricks Won:").split()[observation.seat])
    return [_wanted(card, trick, trump, bid > won) for card in observation.moves]


def _bids(observation: Observation, trump: str) -> list[MoveValue]:
    hand = [suit + rank for suit, ranks in re.findall(r"^ +([CDSH]): (\w+)", observation.text, re.M) for rank in ranks]
    promise = sum(_promise(card, trump) for card in hand)
    return [MoveValue(-abs(int(name) - promise), "count") for name in observation.moves]


def _promise(card: str, trump: str) -> float:
    rank = RANKS.index(card[1])
    if card[0] == trump:
        return 0.5 + rank / 24
    return {12: 0.7, 11: 0.45, 10: 0.25}.get(rank, 0.0)


def _wanted(card: str, trick: Trick, trump: str, wanted: bool) -> MoveValue:
    rank = RANKS.index(card[1]) + 20 * (card[0] == trump)
    if not trick.cards:
        return MoveValue(rank if wanted else -rank, "lead high" if wanted else "lead low")
    takes = _beats(card, trick, trump)
    if wanted:
        return MoveValue(100 - rank if takes and trick.last else rank if takes else -rank, "take" if takes else "low")
    return MoveValue(-rank - 50 if takes else rank, "take" if takes else "duck")


def _beats(card: str, trick: Trick, trump: str) -> bool:
    """Whether a card would win the trick as it stands."""
    led = trick.cards[0][0]

    def strength(one: str) -> int:
        return RANKS.index(one[1]) + 20 * (one[0] == led) + 40 * (one[0] == trump)

    return strength(card) > max(strength(one) for one in trick.cards)


def euchre(observation: Observation) -> list[MoveValue]:
    """Euchre: name trumps with a strong hand, lead high, and take tricks cheaply, but not from the partner."""
    text = observation.text
    if "Declarer go alone:" not in text or "Alone" in observation.moves:
        return _calls(observation)
    trump = _named(text)
    players = 4 - text.count("alone: true")
    trick = on_the_table(text, players, turned=False)
    partners = len(trick.cards) >= 2 and players == 4 and _strongest(trick, trump) == len(trick.cards) - 2

    def move_value(card: str) -> MoveValue:
        strength = _power(card, trump, trick.cards[0] if trick.cards else card)
        if not trick.cards:
            return MoveValue(strength, "lead high")
        best = max(_power(one, trump, trick.cards[0]) for one in trick.cards)
        if strength <= best:
            return MoveValue(-strength, "low")
        if partners:
            return MoveValue(-50 - strength, "over the partner")
        return MoveValue(100 - strength if trick.last else 50 + strength, "take")

    return [move_value(card) for card in observation.moves]


def _calls(observation: Observation) -> list[MoveValue]:
    """Values for the bidding, the discard, and the choice to go alone."""
    text, hand = observation.text, _hand(observation.text)
    up = _after(text, "Upcard:")
    suits = {"Clubs": "C", "Diamonds": "D", "Hearts": "H", "Spades": "S", "Order up!": up[0]}

    def move_value(name: str) -> MoveValue:
        if name in suits:
            count = sum(_power(card, suits[name], card) >= 40 for card in hand)
            aces = sum(card[1] == "A" and card[0] != suits[name] for card in hand)
            return MoveValue(2 * count + aces, "trumps") if 2 * count + aces >= 6 else MoveValue(-10 + count, "weak")
        if len(name) == 2 and name[1] in RANKS:
            return MoveValue(-_power(name, up[0], name), "lay down")
        return MoveValue(0, "partner" if "partner" in name.lower() else "wait")

    return [move_value(name) for name in observation.moves]


def _hand(text: str) -> list[str]:
    found = re.findall(r"^([CDHS]) (\w+)$", text, re.M)
    return [suit + rank for suit, ranks in found if ranks != "none" for rank in ranks]


def _named(text: str) -> str:
    """The trump suit: the one called by name, or else that of the upcard."""
    called = re.findall(r"Clubs|Diamonds|Hearts|Spades", text.split("Bidding:")[1].split("Tricks:")[0])
    return called[0][0] if called else _after(text, "Upcard:")[0]


def _power(card: str, trump: str, led: str) -> int:
    """The strength of a euchre card: right bower, left bower, trumps, the suit led, the rest."""
    if card[1] == "J" and card[0] == trump:
        return 61
    if card[1] == "J" and card[0] == _SAME_COLOUR[trump]:
        return 60
    left_bower_led = led[1] == "J" and led[0] == _SAME_COLOUR[trump]
    suit = trump if left_bower_led else led[0]
    return RANKS.index(card[1]) + (40 if card[0] == trump else 20 if card[0] == suit else 0)


def _strongest(trick: Trick, trump: str) -> int:
    powers = [_power(card, trump, trick.cards[0]) for card in trick.cards]
    return powers.index(max(powers))


def _after(text: str, label: str) -> str:
    """The rest of the line after a label."""
    return text.split(label)[1].split("\n")[0].strip()
