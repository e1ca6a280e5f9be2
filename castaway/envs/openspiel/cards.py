"""Poker, pig, blackjack and sheriff as text, read from what OpenSpiel shows the player.

A bet has the same name in both kinds of poker: `check` and `bet` while nothing is to be paid, then `fold`, `call` and
`raise`. What was said in a round so far stands after `said`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from castaway.envs.openspiel.games import Observation, player_count

_POKER = "JQKA"  # the ranks of Kuhn and Leduc poker, lowest first
_MONEY = 100  # what everybody has before a game of Leduc poker


def around(observation: Observation) -> tuple[str, ...]:
    """What the player calls everybody, from itself to the left."""
    across = "partner" if observation.game.name == "euchre" else "across"
    count = player_count(observation.game, observation.variant)
    return {2: ("you", "other"), 3: ("you", "left", "right")}.get(count, ("you", "left", across, "right"))


def each(observation: Observation, amounts: Sequence[object]) -> str:
    """Amounts that are given seat by seat, said from the player's own seat."""
    called, own = around(observation), observation.seat
    return ", ".join(f"{name} {amounts[(own + at) % len(called)]}" for at, name in enumerate(called))


def card_name(card: str) -> str:
    """A card of suit and rank (`HQ`) as people write it: the rank first."""
    return f"{card[1].replace('T', '10')}{card[0]}"


# Poker -------------------------------------------------------------------------------------------------------------


def _bets(moves: Iterable[str]) -> list[str]:
    """What players call the moves of a round, written 0 or p to pass or fold, 1 to call or check, 2 or b to bet."""
    found, bet = list[str](), False
    for move in moves:
        found.append({"p": "fold" if bet else "check", "0": "fold", "1": "call" if bet else "check"}.get(move, "bet"))
        if found[-1] == "bet" and bet:
            found[-1] = "call" if move == "b" else "raise"
        bet = bet or found[-1] == "bet"
    return found


def kuhn_card(observation: Observation) -> tuple[int, list[str]]:
    """The card, 0 for the lowest, and the bets so far."""
    return int(observation.text[0]), _bets(observation.text[1:])


def kuhn(observation: Observation) -> str:
    card, bets = kuhn_card(observation)
    return f"card {_POKER[card]} said {' '.join(bets) or 'nothing'}"


def kuhn_full(observation: Observation) -> str:
    card, bets = kuhn_card(observation)
    called = around(observation)
    said = [f"{called[(at - observation.seat) % len(called)]} {bet}" for at, bet in enumerate(bets)]
    ranks = ", ".join(_POKER[: len(called) + 1])
    return f"Your card: {_POKER[card]} (of {ranks}, lowest first)\nBets so far: {', '.join(said) or 'none'}"


class Leduc(NamedTuple):
    card: int  # the rank, 0 for the lowest
    public: int | None
    bets: tuple[list[str], list[str]]  # of both rounds
    paid: list[int]  # by each seat


def leduc_cards(observation: Observation) -> Leduc:
    fields = {label: value.strip() for label, value in re.findall(r"\[(\w+): ?([^]]*)\]", observation.text)}
    public = int(fields["Public"]) // 2 if "Public" in fields else None
    bets = _bets(fields["Round1"].split()), _bets(fields["Round2"].split())
    return Leduc(int(fields["Private"]) // 2, public, bets, [_MONEY - int(left) for left in fields["Money"].split()])


def leduc(observation: Observation) -> str:
    card, public, (first, second), _ = leduc_cards(observation)
    if public is None:
        return f"card {_POKER[card]} said {' '.join(first) or 'nothing'}"
    before, said = " ".join(first), " ".join(second) or "nothing"
    return f"card {_POKER[card]} public {_POKER[public]} before {before} said {said}"


def leduc_full(observation: Observation) -> str:
    card, public, bets, paid = leduc_cards(observation)
    shown = "not yet shown" if public is None else _POKER[public]
    rounds = [f"Bets of round {at}: {', '.join(said) or 'none'}" for at, said in enumerate(bets, 1)]
    last = rounds[: 1 if public is None else 2]
    return "\n".join([f"Your card: {_POKER[card]}", f"Public card: {shown}", *last, f"Pot: {each(observation, paid)}"])


def bet_name(observation: Observation, move: str, number: int) -> str:
    if observation.game.name == "kuhn_poker":
        return _bets(observation.text[1:] + move[0].lower())[-1]
    _, public, bets, _ = leduc_cards(observation)
    return _bets(_CODES[bet] for bet in (*bets[public is not None], move.lower()))[-1]


_CODES = {"fold": "0", "check": "1", "call": "1", "bet": "2", "raise": "2"}


# Pig, blackjack, sheriff -------------------------------------------------------------------------------------------


def pig_points(observation: Observation) -> tuple[int, int, int, int]:
    """The player's points, the other's, the turn total, and what is needed to win at once."""
    *scores, turn, _ = (int(word) for word in re.findall(r"\d+", observation.text))
    own = scores.pop(observation.seat)
    return own, max(scores), turn, observation.parameters["winscore"] - own - turn


def pig(observation: Observation) -> str:
    own, other, turn, need = pig_points(observation)
    return f"own {own} other {other} turn {turn} need {need}"


def pig_full(observation: Observation) -> str:
    own, other, turn, _ = pig_points(observation)
    return f"Points: you {own}, other {other}\nTurn total: {turn}\nTarget: {observation.parameters['winscore']}"


def blackjack_hands(observation: Observation) -> tuple[list[str], str]:
    """The player's cards and the card that the dealer shows."""
    hand, dealer = (line.split("Cards:")[1].split() for line in observation.text.split("\n")[2:4])
    return hand, next(card for card in dealer if card != "??")


def blackjack_total(cards: list[str]) -> tuple[int, bool]:
    """The total, and whether an ace counts 11 in it."""
    points = [1 if card[1] == "A" else 10 if card[1] in "TJQK" else int(card[1]) for card in cards]
    soft = 1 in points and sum(points) <= 11
    return sum(points) + 10 * soft, soft


def blackjack(observation: Observation) -> str:
    hand, dealer = blackjack_hands(observation)
    total, soft = blackjack_total(hand)
    return f"{'soft' if soft else 'hard'} {total} dealer {blackjack_total([dealer])[0]}"


def blackjack_full(observation: Observation) -> str:
    hand, dealer = blackjack_hands(observation)
    total, soft = blackjack_total(hand)
    mine = " ".join(map(card_name, hand))
    return f"Your cards: {mine}, {'soft' if soft else 'hard'} {total}\nThe dealer shows: {card_name(dealer)}"


def _cargo_and_offers(observation: Observation) -> tuple[str, list[str], int]:
    """The load, which the sheriff does not see, bribes and answers by name, and the round, from 1."""
    cargo = re.findall(r"num_illegal_items:(\w+)", observation.text)
    said = re.findall(r"(bribe|feedback):(\d+)", observation.text)
    between = " " if observation.rendering == "full" else ""
    offers = [f"bribe{between}{n}" if kind == "bribe" else ("accept", "inspect")[int(n)] for kind, n in said]
    return "".join(cargo), offers, (len(offers) - observation.seat) // 2 + 1


def sheriff(observation: Observation) -> str:
    cargo, offers, now = _cargo_and_offers(observation)
    left = f"left {observation.parameters['num_rounds'] - now + 1}"
    return f"{f'cargo {cargo} ' if cargo else ''}{left} said {' '.join(offers) or 'nothing'}"


def sheriff_full(observation: Observation) -> str:
    cargo, offers, now = _cargo_and_offers(observation)
    loaded = [f"Illegal items loaded: {cargo}"] if cargo else []
    said = f"Bribes and answers so far: {', '.join(offers) or 'none'}"
    return "\n".join([*loaded, f"Round: {now} of {observation.parameters['num_rounds']}", said])


def sheriff_name(observation: Observation, move: str, number: int) -> str:
    between, amount = " " if observation.rendering == "full" else "", re.sub("[^0-9]", "", move)
    if amount:
        return f"{'load' if move.startswith('Place') else 'bribe'}{between}{amount}"
    return {"False": "accept", "True": "inspect"}.get(move.split("=")[-1].rstrip(")"), move)
