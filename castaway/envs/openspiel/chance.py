"""Values of moves in games of chance, bluff and cards, by simple heuristics on what the player sees."""

import re
from math import comb

from castaway.envs.openspiel import cards
from castaway.envs.openspiel.games import MoveValue, Observation, player_count
from castaway.envs.openspiel.tricks import RANKS, Table, after, bids_and_tricks, passing, saver, table, trumps_held


def kuhn(observation: Observation) -> list[MoveValue]:
    """Kuhn poker: bet, but after checks only with the lowest and highest card; call with any card but the lowest."""
    card, bets = cards.kuhn_card(observation)
    if "bet" in bets:
        return [MoveValue(card == 0, "give up"), MoveValue(card > 0, "call")]
    others = player_count(observation.game, observation.variant) - 1
    # With a card between them, a worse one folds to the bet, and a better one calls.
    between = 0 < card <= others and len(bets) == others
    return [MoveValue(between, "wait"), MoveValue(not between, "high" if card > 1 else "bluff")]


def leduc(observation: Observation) -> list[MoveValue]:
    """Leduc poker: raise, otherwise call; only with the lowest card, and no pair, fold to a bet in the second round."""
    card, public, (_, second), _ = cards.leduc_cards(observation)
    why = "paired" if public == card else "high" if card > 0 else "bluff"
    if card == 0 and public != 0 and "bet" in second:
        return [MoveValue(name == "Fold", "give up" if name == "Fold" else "bluff") for name in observation.moves]
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
    point = int(after(observation.text, "Point card sequence:").split()[-1])
    bids = [int(name.split()[-1]) for name in observation.moves]
    return [
        MoveValue(-abs(bid - point) + (bid > point) / 2, "even" if bid == point else "over" if bid > point else "under")
        for bid in bids
    ]


_WORTH_KEEPING = 20  # Pig: from here on, the loss by a 1 outweighs the expected gain of another roll


def pig(observation: Observation) -> list[MoveValue]:
    """Pig: stop at a total that wins or is worth keeping; roll on otherwise, or if an opponent is about to win."""
    _, other, turn, need = cards.pig_points(observation)
    if need <= 0:
        stop, why = True, "wins"
    elif observation.parameters["winscore"] - other <= 6:
        stop, why = False, "late"
    else:
        stop = turn >= _WORTH_KEEPING
        why = "enough" if stop else "more"
    values = {"roll": MoveValue(not stop, "risk" if stop else why), "stop": MoveValue(stop, why if stop else "early")}
    return [values[name] for name in observation.moves]


def blackjack(observation: Observation) -> list[MoveValue]:
    """Blackjack: basic strategy in short: hit below 17, but stand from 12 on against a weak dealer card (up to 6)."""
    hand, dealer = cards.blackjack_hands(observation)
    (total, soft), (shown, _) = cards.blackjack_total(hand), cards.blackjack_total([dealer])
    stand = total >= 18 if soft else total >= 17 or (total >= 12 and shown <= 6)
    hit = "soft" if soft else "safe" if total < 12 else "chase"
    return [
        MoveValue(not stand, "too high" if stand else hit),
        MoveValue(stand, "enough" if total >= 17 else "let bust"),
    ]


def sheriff(observation: Observation) -> list[MoveValue]:
    """Sheriff: the smuggler loads as much as possible and bribes as little; the sheriff takes a bribe of 2 or more."""
    if observation.seat == 0:
        dares = observation.moves[0].startswith("Place")
        return [MoveValue(at if dares else -at, "dare" if dares else "pay") for at in range(len(observation.moves))]
    bribe = int(re.findall(r"bribe:(\d+)", observation.text)[-1])
    return [MoveValue(bribe >= 2, "bribe"), MoveValue(bribe < 2, "inspect")]


def hearts(observation: Observation) -> list[MoveValue]:
    """Hearts: pass and discard dangerous cards, stay below the highest card of the trick, and lead low."""
    seen, saves = table(observation), saver(observation)
    danger = [
        -20 if one == saves else RANKS.index(one[1]) + 3 * (one[0] == "H") + 30 * (one == "SQ") for one in seen.legal
    ]
    if passing(observation):
        return [MoveValue(amount, "danger" if amount >= 10 else "keep") for amount in danger]
    if not seen.trick:
        return [MoveValue(-amount, "lead low" if amount < 8 else "lead high") for amount in danger]

    def move_value(card: str, amount: int) -> MoveValue:
        rank = RANKS.index(card[1])
        if card[0] != seen.trick[0][1][0]:
            return MoveValue(100 + amount, "throw")
        if not seen.takes(card):
            return MoveValue(50 + amount, "duck")
        if saves in (played for _, played in seen.trick):
            return MoveValue(80 + rank, "take")
        return MoveValue(rank if seen.last and card != "SQ" else -amount, "take")

    return [move_value(card, amount) for card, amount in zip(seen.legal, danger, strict=True)]


def oh_hell(observation: Observation) -> list[MoveValue]:
    """Oh hell: bid the number of tricks that the high cards promise; win that many, and then avoid tricks."""
    seen, (bids, won) = table(observation), bids_and_tricks(observation)
    if not seen.legal:
        promise = sum(_promise(seen, card) for card in seen.hand)
        return [MoveValue(-abs(int(name) - promise), "count") for name in observation.moves]
    # A trick too many is worth a point all the same.
    return [_wanted(card, seen, bids[0] != won[0]) for card in seen.legal]


_PROMISES = {"A": 0.7, "K": 0.45, "Q": 0.25}  # tricks that a high card is likely to take


def _promise(seen: Table, card: str) -> float:
    return 0.5 + RANKS.index(card[1]) / 24 if card[0] == seen.trump else _PROMISES.get(card[1], 0.0)


def _wanted(card: str, seen: Table, wanted: bool) -> MoveValue:
    rank = RANKS.index(card[1]) + 20 * (card[0] == seen.trump)
    if not seen.trick:
        return MoveValue(rank if wanted else -rank, "lead high" if wanted else "lead low")
    takes = seen.takes(card)
    if wanted:
        worth = 100 - rank if takes and seen.last else rank if takes else -rank
        return MoveValue(worth, "take" if takes else "low")
    return MoveValue(-rank - 50 if takes else rank, "take" if takes else "duck")


def euchre(observation: Observation) -> list[MoveValue]:
    """Euchre: name trumps with a fair hand, lead high but trumps last, take tricks cheaply, not from the partner."""
    seen = table(observation)
    if not seen.legal:
        return _calls(observation)
    if "Declarer" not in observation.text:
        return [MoveValue(-seen.strength(card, ""), "lay down") for card in seen.legal]
    partners = bool(seen.trick) and seen.winner(seen.trick)[0] == 2

    def move_value(card: str) -> MoveValue:
        if not seen.trick:
            trump = seen.suit(card) == seen.trump
            return MoveValue(seen.strength(card, card[0]) - 100 * trump, "trump" if trump else "lead high")
        strength = seen.strength(card, seen.suit(seen.trick[0][1]))
        if not seen.takes(card):
            return MoveValue(-strength, "low")
        if partners:
            return MoveValue(-50 - strength, "over the partner")
        return MoveValue(100 - strength if seen.last else 50 + strength, "take")

    return [move_value(card) for card in seen.legal]


def _calls(observation: Observation) -> list[MoveValue]:
    """A suit with two points for each trump and one for each other ace, if these are four or more."""
    hand = table(observation).hand

    def move_value(name: str) -> MoveValue:
        if name in _OTHER_CALLS:
            return MoveValue(*_OTHER_CALLS[name])
        aces = sum(card[1] == "A" and card[0] != name[0] for card in hand)
        points = 2 * trumps_held(observation, name[0]) + aces - 4
        return MoveValue(points + 1, "trumps") if points >= 0 else MoveValue(points, "weak")

    return [move_value(name) for name in observation.moves]


_OTHER_CALLS = {"Pass": (0, "wait"), "Partner": (0, "together"), "Alone": (-1, "alone")}
