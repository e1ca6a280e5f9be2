"""Values of moves in games of chance and bluff, by simple heuristics on what the player sees."""

from __future__ import annotations

import re
from math import comb

from castaway.envs.openspiel.move_value import MoveValue
from castaway.envs.openspiel.observation import Observation


def kuhn(observation: Observation) -> list[MoveValue]:
    """Kuhn poker: always bet or call, never fold."""
    card, bets = int(observation.text[0]), observation.text.count("b")
    why = "call" if bets else "high" if card > 1 else "bluff"
    return [MoveValue(0, "give up" if bets else "wait"), MoveValue(1, why)]


def leduc(observation: Observation) -> list[MoveValue]:
    """Leduc poker: raise if possible, otherwise call, and never fold."""
    found = dict(re.findall(r"\[(Private|Public): (\d+)\]", observation.text))
    private = int(found["Private"]) // 2
    pair = "Public" in found and int(found["Public"]) // 2 == private
    why = "pair" if pair else "high" if private > 0 else "bluff"
    move_values = {"Fold": MoveValue(0, "give up"), "Call": MoveValue(1, "stay"), "Raise": MoveValue(2, why)}
    return [move_values[name] for name in observation.moves]


def liar(observation: Observation) -> list[MoveValue]:
    """Liar's dice: the highest bid that the own dice prove; otherwise doubt an unlikely bid, or make the likeliest."""
    dice = observation.text.split()[0]
    parameters = observation.game.variants[observation.variant].parameters
    unseen = int(parameters["numdice"])
    bids = observation.text.split()[1:]

    def chance(bid: str) -> float:
        """The probability that the other dice hold what the bid lacks; sixes are wild."""
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
    line = next(line for line in observation.text.split("\n") if line.startswith("Point card sequence:"))
    point = int(line.split()[-1])
    bids = [int(name.split()[-1]) for name in observation.moves]
    return [
        MoveValue(-abs(bid - point) + (bid > point) / 2, "even" if bid == point else "over" if bid > point else "under")
        for bid in bids
    ]


_WORTH_KEEPING = 20
"""Pig: from this turn total on, the loss by a 1 (one roll in six) outweighs the expected gain of another roll."""


def pig(observation: Observation) -> list[MoveValue]:
    """Pig: stop at a total that wins or is worth keeping; roll on otherwise, or if an opponent is about to win."""
    parameters = observation.game.variants[observation.variant].parameters
    target = int(parameters["winscore"])
    numbers = [int(word) for word in re.findall(r"\d+", observation.text)]
    scores, turn = numbers[:-2], numbers[-2]
    own = scores[observation.seat]
    best = max(score for number, score in enumerate(scores) if number != observation.seat)
    if own + turn >= target:
        stop, why = True, "wins"
    elif target - best <= 6:
        stop, why = False, "late"
    else:
        stop = turn >= _WORTH_KEEPING
        why = "enough" if stop else "more"
    found = {"roll": MoveValue(not stop, "risk" if stop else why), "stop": MoveValue(stop, why if stop else "early")}
    return [found[name] for name in observation.moves]


def blackjack(observation: Observation) -> list[MoveValue]:
    """Blackjack: basic strategy in short: hit below 17, but stand from 12 on against a weak dealer card (up to 6)."""
    hand, dealer = (line.split("Cards:")[1].split() for line in observation.text.split("\n")[2:4])
    total, soft = _total(hand)
    shown, _ = _total([card for card in dealer if card != "??"])
    stand = total >= 18 if soft else total >= 17 or (total >= 12 and shown <= 6)
    hit = "soft" if soft else "low" if total < 12 else "chase"
    return [
        MoveValue(not stand, hit if not stand else "too high"),
        MoveValue(stand, "high" if total >= 17 else "let bust"),
    ]


def _total(cards: list[str]) -> tuple[int, bool]:
    """The points of a hand, and whether an ace counts 11 in it (a soft hand)."""
    points = [1 if card[1] == "A" else 10 if card[1] in "TJQK" else int(card[1]) for card in cards]
    soft = 1 in points and sum(points) <= 11
    return sum(points) + 10 * soft, soft


def sheriff(observation: Observation) -> list[MoveValue]:
    """Sheriff: the smuggler loads as much as possible and bribes as little; the sheriff takes a bribe of 2 or more."""
    if observation.seat == 0:
        dares = observation.moves[0].startswith("Place")
        count = len(observation.moves)
        return [MoveValue(at if dares else -at, "dare" if dares else "pay") for at in range(count)]
    bribe = int(re.findall(r"bribe:(\d+)", observation.text)[-1])
    return [MoveValue(bribe >= 2, "bribe"), MoveValue(bribe < 2, "inspect")]
