"""Euchre, hearts and oh hell as text: the cards, and who takes the trick, read from what OpenSpiel shows the player.

In the compact rendering trumps are the suit `T`, whatever suit they are, and the two highest jacks of euchre are `TR`
and `TL`. A card in the menu has `+` if it would now take the trick, and `-` if not. The hand is the menu, which begins
with the lowest cards, and the cards after `rest`, which may not be played.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from castaway.envs.openspiel.cards import around, card_name, each
from castaway.envs.openspiel.games import Observation, player_count

RANKS = "23456789TJQKA"  # lowest first
SUITS = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}
_SAME_COLOUR = {"C": "S", "S": "C", "D": "H", "H": "D"}

Play = tuple[int, str]  # who, counted to the left from the player, and its card, as suit and rank (`HQ`)


class Table(NamedTuple):
    """What the player sees; everybody is counted to the left from the player, 0."""

    hand: tuple[str, ...]
    legal: tuple[str, ...]  # the cards that may be played now; empty in the bidding
    trick: tuple[Play, ...]
    past: tuple[tuple[Play, ...], ...]  # tricks that are complete
    players: int  # without those who sit out
    trump: str  # the suit, or "" where there is none
    bowers: bool

    @property
    def last(self) -> bool:
        """Whether the player's card completes the trick."""
        return len(self.trick) == self.players - 1

    def suit(self, card: str) -> str:
        left = self.bowers and card[1] == "J" and _SAME_COLOUR.get(self.trump) == card[0]
        return self.trump if left else card[0]

    def strength(self, card: str, led: str) -> int:
        """How high a card is in a trick in which the suit `led` is led; a card that cannot take it is below 20."""
        suit = self.suit(card)
        if suit != self.trump:
            return RANKS.index(card[1]) + 20 * (suit == led)
        bower = self.bowers and card[1] == "J"
        return 40 + (RANKS.index(card[1]) if not bower else 21 if card[0] == suit else 20)

    def winner(self, trick: tuple[Play, ...]) -> Play:
        led = self.suit(trick[0][1])
        return max(trick, key=lambda play: self.strength(play[1], led))

    def takes(self, card: str) -> bool:
        """Whether a card would be the highest of the trick as it is."""
        return self.winner((*self.trick, (0, card)))[0] == 0

    def seen(self) -> set[str]:
        """The cards that have been played, and the player's own."""
        return {*self.hand, *(card for trick in (*self.past, self.trick) for _, card in trick)}

    def word(self, card: str) -> str:
        """A card in the compact rendering."""
        if self.suit(card) != self.trump:
            return card
        bower = self.bowers and card[1] == "J"
        return f"T{card[1] if not bower else 'R' if card[0] == self.trump else 'L'}"


@lru_cache(maxsize=2**10)
def table(observation: Observation) -> Table:
    name, text = observation.game.name, observation.text
    flip = -1 if name == "hearts" else 1  # hearts writes the rank first
    held = re.findall(r"^( +[CDHS]:|[CDHS]) (\w+)$", text, re.M)
    hand = [suit.strip(" :") + rank for suit, ranks in held if ranks != "none" for rank in ranks]
    seats = player_count(observation.game, observation.variant)
    players = seats - text.count("alone: true")
    # Below a line with the players stands a line for each trick; every player has a column of three characters.
    tricks = [
        tuple(((match.start() // 3 - observation.seat) % seats, match[0][::flip]) for match in re.finditer(r"\w+", row))
        for row in text.partition("\nTricks:\n")[2].split("\n\n")[0].split("\n")[1:]
    ]
    return Table(
        hand=tuple(sorted(hand, key=lambda card: ("SHDC".index(card[0]), -RANKS.index(card[1])))),
        legal=tuple(move[::flip] for move in observation.moves if len(move) == 2 and move.isupper()),
        trick=tricks.pop() if tricks and len(tricks[-1]) < players else (),
        past=tuple(tricks),
        players=players,
        trump=_trump(observation),
        bowers=name == "euchre",
    )


def _trump(observation: Observation) -> str:
    if observation.game.name == "euchre":
        return bidding(observation).trump
    return after(observation.text, "Trump:")[0] if observation.game.name == "oh_hell" else ""


def after(text: str, label: str) -> str:
    """The rest of the line that begins with a label."""
    return text.split(label)[1].split("\n")[0].strip()


def _following(observation: Observation) -> list[str]:
    """The trick and the cards that may not be played, in one word each."""
    seen = table(observation)
    trick = ["trick", *(seen.word(card) for _, card in seen.trick)] if seen.trick else ["lead"]
    rest = [seen.word(card) for card in seen.hand if card not in seen.legal]
    return [" ".join([*trick, *["last"] * seen.last]), *([" ".join(["rest", *rest])] if rest else [])]


def _cards(cards: tuple[str, ...] | list[str]) -> str:
    return " ".join(map(card_name, cards))


def _following_full(observation: Observation) -> list[str]:
    seen, called = table(observation), around(observation)
    trick = ", ".join(f"{called[who]} {card_name(card)}" for who, card in seen.trick)
    won = [sum(seen.winner(one)[0] == who for one in seen.past) for who in range(len(called))]
    lines = [f"Your hand: {_cards(seen.hand)}", f"Trick: {trick}" if trick else "You lead to the next trick."]
    if not seen.past:
        return lines
    counts = ", ".join(f"{name} {count}" for name, count in zip(called, won, strict=True))
    before = " / ".join(_cards([card for _, card in one]) for one in seen.past)
    return [*lines, f"Tricks taken: {counts}", f"Earlier tricks: {before}"]


# Hearts ------------------------------------------------------------------------------------------------------------


def saver(observation: Observation) -> str:
    """The card that takes points off, if there is one."""
    return "DJ" if "jd_bonus" in observation.parameters else ""


def passing(observation: Observation) -> bool:
    """Whether cards are still passed on, before the first trick."""
    return "No Pass" not in observation.text and "Received Cards:" not in observation.text


def hearts(observation: Observation) -> str:
    if passing(observation):
        return f"pass {after(observation.text, 'Pass Direction:').lower()}"
    seen = table(observation)
    points = sum((card[0] == "H") + 13 * (card == "SQ") for _, card in seen.trick)
    out = [card for card in ("SQ", saver(observation)) if card and card not in seen.seen()]
    facts = [*([f"points {points}"] if points else []), *([f"out {' '.join(out)}"] if out else [])]
    return "\n".join([*_following(observation), *facts])


def hearts_full(observation: Observation) -> str:
    text = observation.text
    moved = [
        f"You {verb}: {_cards([card[::-1] for card in after(text, label).split()])}"
        for verb, label in (("passed", "Passed Cards:"), ("received", "Received Cards:"))
        if label in text
    ]
    if passing(observation):
        hand, direction = table(observation).hand, after(text, "Pass Direction:").lower()
        return "\n".join([f"You pass three cards {direction}.", f"Your hand: {_cards(hand)}", *moved])
    points = re.findall(r"^[NESW]: (-?\d+)$", text, re.M) or [0] * 4
    return "\n".join([*_following_full(observation), f"Points: {each(observation, points)}", *moved])


# Oh hell -----------------------------------------------------------------------------------------------------------


def bids_and_tricks(observation: Observation) -> tuple[list[int], list[int]]:
    """The bids, -1 where there is none yet, and the tricks taken, of everybody from the player to the left."""
    own = observation.seat
    bids, won = ([int(word) for word in after(observation.text, label).split()] for label in ("Bids:", "Tricks Won:"))
    return bids[own:] + bids[:own], won[own:] + won[:own]


def oh_hell(observation: Observation) -> str:
    seen, (bids, won) = table(observation), bids_and_tricks(observation)
    if seen.legal:
        return "\n".join([f"need {bids[0] - won[0]}", *_following(observation)])
    earlier = [str(bid) for bid in bids if bid >= 0] or ["none"]
    return " ".join(["hand", *map(seen.word, _high_first(seen)), "bids", *earlier])


def oh_hell_full(observation: Observation) -> str:
    seen, (bids, _) = table(observation), bids_and_tricks(observation)
    up = f"Trumps: {SUITS[seen.trump]}"
    said = ", ".join(
        f"{name} {bid if bid >= 0 else 'none yet'}" for name, bid in zip(around(observation), bids, strict=True)
    )
    own = _following_full(observation) if seen.legal else [f"Your hand: {_cards(seen.hand)}"]
    return "\n".join([up, f"Bids: {said}", *own])


def _high_first(seen: Table) -> list[str]:
    return sorted(seen.hand, key=lambda card: -seen.strength(card, ""))


# Euchre ------------------------------------------------------------------------------------------------------------


class Bidding(NamedTuple):
    up: str  # the card turned up
    dealer: int  # counted to the left from the player
    makers: int | None  # who has named trumps
    trump: str  # as long as nobody has named them, the suit of the card turned up, if it can still be ordered up


def bidding(observation: Observation) -> Bidding:
    text, seat = observation.text, observation.seat
    up = after(text, "Upcard:")
    dealer = ("NESW".index(after(text, "Dealer:")) - seat) % 4
    rows = text.partition("\nBidding:\n")[2].split("Declarer")[0].split("Tricks")[0].split("\n")[1:]
    called = [match for row in rows for match in re.finditer("Order|Clubs|Diamonds|Hearts|Spades", row)]
    if not called:
        return Bidding(up, dealer, None, up[0] if text.count("Pass") < 4 else "")
    who = (called[-1].start() // 9 - seat) % 4  # every player has a column of nine characters
    return Bidding(up, dealer, who, up[0] if called[-1][0] == "Order" else called[-1][0][0])


def euchre(observation: Observation) -> str:
    seen, (up, dealer, makers, trump), called = table(observation), bidding(observation), around(observation)
    hand = " ".join(["hand", *map(seen.word, _high_first(seen))])
    if makers is None:
        return f"{'up' if trump else 'down'} {seen.word(up)} dealer {called[dealer]}\n{hand}"
    if not seen.legal:
        return f"makers {called[makers]}\n{hand}"
    if "Declarer" not in observation.text:
        return "discard"
    best = [f"best {called[seen.winner(seen.trick)[0]]}"] if seen.trick else []
    return "\n".join([" ".join([f"makers {called[makers]}", *best]), *_following(observation)])


def euchre_full(observation: Observation) -> str:
    seen, (up, dealer, makers, trump), called = table(observation), bidding(observation), around(observation)
    lines = [f"Dealer: {called[dealer]}"]
    if makers is None:
        lines.append(f"Turned up: {card_name(up)}" if trump else f"Turned down: {card_name(up)}")
    else:
        lines.append(f"Trumps: {SUITS[trump]}, named by: {called[makers]}")
    if seen.legal and "Declarer" in observation.text:
        return "\n".join([*lines, *_following_full(observation)])
    return "\n".join([*lines, f"Your hand: {_cards(seen.hand)}", *["You lay down a card."] * bool(seen.legal)])


def trumps_held(observation: Observation, suit: str) -> int:
    seen = table(observation)._replace(trump=suit)
    return sum(seen.suit(card) == suit for card in seen.hand)


# Names -------------------------------------------------------------------------------------------------------------


def name(observation: Observation, move: str, number: int) -> str:
    full, seen = observation.rendering == "full", table(observation)
    if move.isdigit():
        return f"bid {move}" if full else f"bid{move}"
    if len(move) == 2:
        card = move[::-1] if observation.game.name == "hearts" else move
        if full:
            return card_name(card)
        return f"{('+' if seen.takes(card) else '-') if seen.trick else ''}{seen.word(card)}"
    if move[0] not in SUITS or move == "Pass":
        return "with partner" if full and move == "Partner" else move.lower()
    if seen.trump:
        return "order up" if full else "order"
    return move.lower() if full else f"{move.lower()}{trumps_held(observation, move[0])}"
