"""Values of moves in games of chance, bluff and cards, by simple heuristics on what the player sees."""

import re
from math import comb
from typing import NamedTuple

from castaway.envs.openspiel.games import MoveValue, Observation


def kuhn(observation: Observation) -> list[MoveValue]:
    """Kuhn poker: always bet or call, never fold."""
    card, bets = int(observation.text[0]), observation.text.count("b")
    why = "call" if bets else "high" if card > 1 else "bluff"
    return [MoveValue(0, "give up" if bets else "wait"), MoveValue(1, why)]


def leduc(observation: Observation) -> list[MoveValue]:
    """Leduc poker: raise if possible, otherwise call, and never fold."""
    cards = dict(re.findall(r"\[(Private|Public): (\d+)\]", observation.text))
    private = int(cards["Private"]) // 2
    pair = "Public" in cards and int(cards["Public"]) // 2 == private
    why = "pair" if pair else "high" if private > 0 else "bluff"
    move_values = {"Fold": MoveValue(0, "give up"), "Call": MoveValue(1, "stay"), "Raise": MoveValue(2, why)}
    return [move_values[name] for name in observation.moves]


def liar(observation: Observation) -> list[MoveValue]:
    """Liar's dice: the highest bid that the own dice prove; otherwise doubt an unlikely bid, or make the likeliest."""
    dice, *bids = observation.text.split()
    unseen = observation.parameters["numdice"]

    def chance(bid: str) -> float:
        # The probability that the other dice hold what the bid lacks; sixes are wild.
        count, face = (int(part) for part in bid.split("-"))
        lacking = count - sum(int(die) in (face, 6) for die in dice)
        if lacking <= 0:
            return 1.0
        odds = 1 / 6 if face == 6 else 1 / 3
        return sum(comb(unseen, k) * odds**k * (1 - odds) ** (unseen - k) for k in range(lacking, unseen + 1))

    def move_value(rank: int, name: str) -> MoveValue:
        if name == "Liar":
            return MoveValue(1 - chance(bids[-1]), "doubt")
        likely = chance(name)
        if likely == 1:
            return MoveValue(1 + rank / 1000, "sure")
        return MoveValue(0.8 * likely, "likely" if likely > 0.5 else "bluff")

    return [move_value(rank, name) for rank, name in enumerate(observation.moves)]


def goofspiel(observation: Observation) -> list[MoveValue]:
    """Goofspiel: bid the card closest to the point card; of two equally close ones the higher."""
    point = int(_after(observation.text, "Point card sequence:").split()[-1])
    bids = [int(name.split()[-1]) for name in observation.moves]
    return [
        MoveValue(-abs(bid - point) + (bid > point) / 2, "even" if bid == point else "over" if bid > point else "under")
        for bid in bids
    ]


_WORTH_KEEPING = 20  # Pig: from here on, the loss by a 1 outweighs the expected gain of another roll


def pig(observation: Observation) -> list[MoveValue]:
    """Pig: stop at a total that wins or is worth keeping; roll on otherwise, or if an opponent is about to win."""
    target = observation.parameters["winscore"]
    *scores, turn, _ = (int(word) for word in re.findall(r"\d+", observation.text))
    own = scores.pop(observation.seat)
    if own + turn >= target:
        stop, why = True, "wins"
    elif target - max(scores) <= 6:
        stop, why = False, "late"
    else:
        stop = turn >= _WORTH_KEEPING
        why = "enough" if stop else "more"
    values = {"roll": MoveValue(not stop, "risk" if stop else why), "stop": MoveValue(stop, why if stop else "early")}
    return [values[name] for name in observation.moves]


def blackjack(observation: Observation) -> list[MoveValue]:
    """Blackjack: basic strategy in short: hit below 17, but stand from 12 on against a weak dealer card (up to 6)."""
    hand, dealer = (line.split("Cards:")[1].split() for line in observation.text.split("\n")[2:4])
    total, soft = _total(hand)
    shown, _ = _total([card for card in dealer if card != "??"])
    stand = total >= 18 if soft else total >= 17 or (total >= 12 and shown <= 6)
    hit = "soft" if soft else "low" if total < 12 else "chase"
    return [MoveValue(not stand, "too high" if stand else hit), MoveValue(stand, "high" if total >= 17 else "let bust")]


def _total(cards: list[str]) -> tuple[int, bool]:
    points = [1 if card[1] == "A" else 10 if card[1] in "TJQK" else int(card[1]) for card in cards]
    soft = 1 in points and sum(points) <= 11
    return sum(points) + 10 * soft, soft


def sheriff(observation: Observation) -> list[MoveValue]:
    """Sheriff: the smuggler loads as much as possible and bribes as little; the sheriff takes a bribe of 2 or more."""
    if observation.seat == 0:
        dares = observation.moves[0].startswith("Place")
        return [MoveValue(at if dares else -at, "dare" if dares else "pay") for at in range(len(observation.moves))]
    bribe = int(re.findall(r"bribe:(\d+)", observation.text)[-1])
    return [MoveValue(bribe >= 2, "bribe"), MoveValue(bribe < 2, "inspect")]


RANKS = "23456789TJQKA"  # lowest first
_SAME_COLOUR = {"C": "S", "S": "C", "D": "H", "H": "D"}


class Trick(NamedTuple):
    cards: list[str]  # the cards on the table in the order of play, each as suit and rank (`HQ`)
    last: bool  # whether the next card completes the trick


def trick_in(text: str, players: int, turned: bool = False) -> Trick:
    """The current trick, read from the text of a state; `turned` if cards are written rank first."""
    # Below the label and a line with the players, there is a line for each trick, up to an empty line.
    rows = text.partition("Tricks:")[2].split("\n\n")[0].split("\n")[2:]
    cards = rows[-1].split() if rows else []
    if len(cards) == players:
        cards = []
    return Trick([card[::-1] if turned else card for card in cards], len(cards) == players - 1)


def hearts(observation: Observation) -> list[MoveValue]:
    """Hearts: pass and discard dangerous cards, stay below the highest card of the trick, and lead low."""
    trick = trick_in(observation.text, 4, turned=True)
    cards = [name[::-1] for name in observation.moves]  # rank first: the queen of spades is QS
    saves = "DJ" if "jd_bonus" in observation.parameters else ""
    danger = [-20 if one == saves else RANKS.index(one[1]) + 3 * (one[0] == "H") + 30 * (one == "SQ") for one in cards]
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
    text = observation.text
    trump = _after(text, "Trump:")[0]
    if observation.moves[0].isdigit():
        return _bids(observation, trump)
    trick = trick_in(text.split("Trump:")[1], 3)
    bid = int(_after(text, "Bids:").split()[observation.seat])
    won = int(_after(text, "Tricks Won:").split()[observation.seat])
    return [_wanted(card, trick, trump, bid > won) for card in observation.moves]


def _bids(observation: Observation, trump: str) -> list[MoveValue]:
    hand = [suit + rank for suit, ranks in re.findall(r"^ +([CDSH]): (\w+)", observation.text, re.M) for rank in ranks]
    high = {"A": 0.7, "K": 0.45, "Q": 0.25}
    promise = sum(0.5 + RANKS.index(rank) / 24 if suit == trump else high.get(rank, 0.0) for suit, rank in hand)
    return [MoveValue(-abs(int(name) - promise), "count") for name in observation.moves]


def _wanted(card: str, trick: Trick, trump: str, wanted: bool) -> MoveValue:
    rank = RANKS.index(card[1]) + 20 * (card[0] == trump)
    if not trick.cards:
        return MoveValue(rank if wanted else -rank, "lead high" if wanted else "lead low")
    led = trick.cards[0][0]

    def strength(one: str) -> int:
        return RANKS.index(one[1]) + 20 * (one[0] == led) + 40 * (one[0] == trump)

    takes = strength(card) > max(map(strength, trick.cards))
    if wanted:
        return MoveValue(100 - rank if takes and trick.last else rank if takes else -rank, "take" if takes else "low")
    return MoveValue(-rank - 50 if takes else rank, "take" if takes else "duck")


def euchre(observation: Observation) -> list[MoveValue]:
    """Euchre: name trumps with a strong hand, lead high, and take tricks cheaply, but not from the partner."""
    text = observation.text
    if "Declarer go alone:" not in text or "Alone" in observation.moves:
        return _calls(observation)
    called = re.findall(r"Clubs|Diamonds|Hearts|Spades", text.split("Bidding:")[1].split("Tricks:")[0])
    trump = (called or [_after(text, "Upcard:")])[0][0]
    players = 4 - text.count("alone: true")
    trick = trick_in(text, players)
    powers = [_power(card, trump, trick.cards[0]) for card in trick.cards]
    partners = len(powers) >= 2 and players == 4 and powers.index(max(powers)) == len(powers) - 2

    def move_value(card: str) -> MoveValue:
        strength = _power(card, trump, trick.cards[0] if trick.cards else card)
        if not trick.cards:
            return MoveValue(strength, "lead high")
        if strength <= max(powers):
            return MoveValue(-strength, "low")
        if partners:
            return MoveValue(-50 - strength, "over the partner")
        return MoveValue(100 - strength if trick.last else 50 + strength, "take")

    return [move_value(card) for card in observation.moves]


def _calls(observation: Observation) -> list[MoveValue]:
    held = re.findall(r"^([CDHS]) (\w+)$", observation.text, re.MULTILINE)
    hand = [suit + rank for suit, ranks in held if ranks != "none" for rank in ranks]
    up = _after(observation.text, "Upcard:")
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


def _power(card: str, trump: str, led: str) -> int:
    if card[1] == "J" and card[0] == trump:
        return 61
    if card[1] == "J" and card[0] == _SAME_COLOUR[trump]:
        return 60
    left_bower_led = led[1] == "J" and led[0] == _SAME_COLOUR[trump]
    suit = trump if left_bower_led else led[0]
    return RANKS.index(card[1]) + (40 if card[0] == trump else 20 if card[0] == suit else 0)


def _after(text: str, label: str) -> str:
    return text.split(label)[1].split("\n")[0].strip()
