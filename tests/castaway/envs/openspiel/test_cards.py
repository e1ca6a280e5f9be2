"""Card games and pig in our own words, by hand and against what OpenSpiel does with a card that is played."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from castaway.envs.openspiel.games import Game, Observation, load_variant, observe
from castaway.envs.openspiel.prompting import messages
from castaway.envs.openspiel.rendering import names, situation
from castaway.envs.openspiel.tricks import bids_and_tricks, table
from tests.castaway.envs.openspiel.twins import NAMED

TRICKS = [(name, variant) for name in ("euchre", "hearts", "oh_hell") for variant in range(len(NAMED[name].variants))]
OURS = ("kuhn_poker", "leduc_poker", "pig", "blackjack", "sheriff", "euchre", "hearts", "oh_hell")
LONGEST = {"compact": 65, "full": 600}
"""Words of a compact prompt, and characters of a full one, in the longest hand of hearts."""


def turns(game: Game, variant: int, seed: int) -> Iterator[Any]:
    """The states of a random game in which a player is to move."""
    state, random = load_variant(game, variant).new_initial_state(), Random(seed)
    while not state.is_terminal():
        if not state.is_chance_node():
            yield state.clone()
        state.apply_action(random.choice(state.legal_actions()))


def seen(game: Game, variant: int, state: Any, rendering: Any = "compact") -> Observation:
    return observe(game, variant, state.current_player(), state, rendering)


def after(name: str, moves: list[int], variant: int = 0, rendering: Any = "compact") -> tuple[str, tuple[str, ...]]:
    """The situation and the menu after moves by OpenSpiel's numbers, chance included."""
    state = load_variant(NAMED[name], variant).new_initial_state()
    for move in moves:
        state.apply_action(move)
    found = seen(NAMED[name], variant, state, rendering)
    return situation(found), names(found)


@pytest.mark.parametrize(("name", "variant"), TRICKS)
def test_a_card_with_a_plus_takes_the_trick_and_the_hand_is_the_menu_and_the_rest(name: str, variant: int) -> None:
    game, completed = NAMED[name], 0
    for seed in range(25):
        for state in turns(game, variant, seed):
            observation = seen(game, variant, state)
            cards = table(observation)
            words = messages(observation)[1]["content"].split()
            taken = [cards.winner(trick)[0] for trick in cards.past]
            leaders = [trick[0][0] for trick in (*cards.past, cards.trick or ((0, ""),))]
            assert not cards.legal or taken == leaders[1:]
            if name == "oh_hell":
                assert [taken.count(who) for who in range(3)] == bids_and_tricks(observation)[1]
            if cards.legal and cards.trick:
                rest = words[words.index("rest") + 1 : words.index("moves")] if "rest" in words else []
                rest = rest[: next((at for at, word in enumerate(rest) if word in ("points", "out")), len(rest))]
                assert len(rest) + len(cards.legal) == len(cards.hand) == len(set(cards.hand))
                assert set(cards.legal) <= set(cards.hand)
            if cards.trick and cards.last:
                assert name == "hearts" or cards.trump
                assert words.count("last") == 1
                for number, word in zip(observation.numbers, names(observation), strict=True):
                    child = state.child(number)
                    if not child.is_terminal():
                        completed += 1
                        assert (child.current_player() == state.current_player()) == word.startswith("+")
    assert completed > 10 or name == "oh_hell"


@pytest.mark.parametrize("name", OURS)
def test_prompts_are_short_and_in_words(name: str) -> None:
    for variant in range(len(NAMED[name].variants)):
        for state in turns(NAMED[name], variant, 1):
            short = messages(seen(NAMED[name], variant, state))
            assert sum(len(message["content"].split()) for message in short) <= LONGEST["compact"]
            assert len(messages(seen(NAMED[name], variant, state, "full"))[1]["content"]) <= LONGEST["full"]
            assert not set("[]()=;?") & set(short[1]["content"])


def test_poker_by_hand() -> None:
    assert after("kuhn_poker", [1, 2, 0]) == ("card K said check", ("check", "bet"))
    assert after("kuhn_poker", [0, 2, 1, 1, 0], 1) == ("card Q said bet fold", ("fold", "call"))
    assert after("kuhn_poker", [0, 2, 0, 1], 0, "full")[0] == (
        "Your card: J (of J, Q, K, lowest first)\nBets so far: you check, other bet"
    )
    # A king and a queen; bet, raise, call; then the other king is shown.
    assert after("leduc_poker", [4, 2, 2, 2]) == ("card K said bet raise", ("fold", "call"))
    second = "card K public K before bet raise call said nothing"
    assert after("leduc_poker", [4, 2, 2, 2, 1, 5]) == (second, ("check", "bet"))
    assert after("leduc_poker", [4, 2, 2, 2, 1, 5], 0, "full")[0].endswith("Pot: you 5, other 5")


def test_pig_blackjack_and_sheriff_by_hand() -> None:
    # A four and a stop; then a six.
    assert after("pig", [0, 3, 1, 0, 5]) == ("own 0 other 4 turn 6 need 4", ("roll", "stop"))
    assert after("sheriff", [4, 7]) == ("left 1 said bribe1", ("accept", "inspect"))
    loaded = ("cargo 2 left 1 said bribe1 inspect", ("bribe0", "bribe1", "bribe2", "bribe3"))
    assert after("sheriff", [4, 7, 1], 1) == loaded
    assert after("sheriff", [4, 7, 1], 1, "full")[0] == (
        "Illegal items loaded: 2\nRound: 2 of 2\nBribes and answers so far: bribe 1, inspect"
    )


def test_the_bowers_of_euchre_are_trumps() -> None:
    found = next(
        table(observation)
        for seed in range(200)
        for state in turns(NAMED["euchre"], 0, seed)
        if "HJ" in table(observation := seen(NAMED["euchre"], 0, state)).hand and table(observation).trump == "D"
    )
    assert [found.word(card) for card in ("DJ", "HJ", "DA", "HA", "SJ")] == ["TR", "TL", "TA", "HA", "SJ"]
    ranked = [found.strength(card, "S") for card in ("DJ", "HJ", "DA", "D9", "SA", "S9", "HA")]
    assert ranked == sorted(ranked, reverse=True)
