"""The full rendering: boards as people draw them, moves by name, and one system message for a game."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.full import user_text
from castaway.envs.openspiel.games import player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.menu import MenuRules
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.pairs import preference_pairs
from castaway.envs.openspiel.players import expert
from castaway.envs.openspiel.tables import tables_named
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import parse_reply
from tests.castaway.envs.openspiel.test_menu import CHANCE_TO_WIN, position

RULES = MenuRules()
SMALL = (
    "tic_tac_toe", "connect_four 4x5", "liars_dice one die", "goofspiel 8 cards", "phantom_ttt silent",
    "dark_hex 3x3", "hex 3x3", "nim 1 3 5 7", "go 3x3",
)  # fmt: skip
"""The games that are trained."""
LONGEST = 400
"""Characters of a user message in these games; at 2.7 characters a token, as in boards, 150 tokens."""


def whole(task_id: int, seed: int) -> list[Prompt]:
    """The prompts of an episode of a random player."""
    environment, random, found = OpenSpielEnvironment(), Random(seed), []
    environment.reset(task_id, "random")
    while not environment.done:
        (prompt,) = environment.prompts()
        found.append(prompt)
        environment.step({"player": random.choice(RULES.legal_actions(prompt.observation))})
    return found


def ids(game: int, variant: int) -> st.SearchStrategy[int]:
    seats = st.integers(0, player_count(GAMES[game], variant) - 1)
    return st.builds(task_id_of, st.builds(Episode, st.just(game), st.just(variant), seats, st.integers(0, 99), seats))


@cache
def system_of(game: int, variant: int) -> str:
    return whole(task_id_of(Episode(game, variant, 0, 0, 0)), 0)[0].messages[0]["content"]


@pytest.mark.parametrize(("game", "variant"), sorted(tables_named(SMALL).tables))
@given(data=st.data(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_a_prompt_is_short_and_its_system_message_the_same_for_all(
    game: int, variant: int, data: st.DataObject, seed: int
) -> None:
    for prompt in whole(data.draw(ids(game, variant)), seed):
        system, user = prompt.messages
        assert system["content"] == system_of(game, variant)
        assert len(user["content"]) <= LONGEST
        example = parse_reply(system["content"])
        assert example.reasoning and example.action


@pytest.mark.parametrize("game", range(len(GAMES)), ids=lambda game: GAMES[game].name)
@given(data=st.data(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=5)
def test_every_move_is_accepted_as_the_menu_writes_it_and_makes_that_move(
    game: int, data: st.DataObject, seed: int
) -> None:
    variant = data.draw(st.integers(0, min(1, len(GAMES[game].variants) - 1)))
    for prompt in whole(data.draw(ids(game, variant)), seed)[:20]:
        seen = prompt.observation
        shown = prompt.messages[1]["content"].rpartition("Moves: ")[2].split(", ")
        assert tuple(shown) == RULES.legal_actions(seen) and len(set(shown)) == len(seen.moves)
        for name in shown:
            assert RULES.refusal(seen, name) is None and RULES.repair(seen, f" {name} ") == name
            assert parse_reply(f"REASONING: a\nACTION: {name}").action == name
        reply = expert(prompt)
        assert reply.action in shown and parse_reply(str(reply)) == reply
        assert reply.reasoning == RULES.reason(seen, reply.action)


def test_a_typed_name_makes_the_move_that_it_names() -> None:
    environment = OpenSpielEnvironment()
    for game in range(len(GAMES)):
        environment.reset(task_id_of(Episode(game, 0, 0, 1, 1)), "random")
        (prompt,) = environment.prompts()
        for name, number in zip(RULES.legal_actions(prompt.observation), prompt.observation.numbers, strict=True):
            environment.reset(task_id_of(Episode(game, 0, 0, 1, 1)), "random")
            before = len(environment.snapshot()["history"])
            environment.step({"player": name})
            assert environment.snapshot()["history"][before] == number


def full(seen: Observation) -> Observation:
    """The same position in the full rendering."""
    return replace(seen, rendering="full")


def test_what_is_no_move_is_told_so() -> None:
    seen = full(CHANCE_TO_WIN)  # a1, b1, a3 and c3 are taken
    for typed, severity in {"b1": "impossible", "z9": "impossible", "1": "form", "B2": "form", " b2": "form"}.items():
        refusal = RULES.refusal(seen, typed)
        assert refusal is not None and refusal.severity == severity
    assert RULES.refusal(seen, "0") is None and "0" not in RULES.legal_actions(seen)
    assert RULES.refusal(seen, "b2") is None
    assert {RULES.repair(seen, text) for text in ("**b2**", "Move to B2.", "b2 please")} == {"b2"}
    assert RULES.blunder(seen, "b2") == "Move 1 (c1) wins at once."
    assert RULES.reason(seen, "c1") == "c1 wins at once."


def test_boards_by_hand() -> None:
    assert user_text(full(CHANCE_TO_WIN)).split("\n") == [
        "You are X. It is your turn.",
        "  a b c",
        "1 X X .",
        "2 . . .",
        "3 O . O",
        "Moves: c1, a2, b2, c2, b3",
    ]
    assert user_text(full(position("connect_four", "x1", "o1"))).split("\n")[1:-1] == [
        "  a b c d e",
        "4 . . . . .",
        "3 . . . . .",
        "2 . O . . .",
        "1 . X . . .",
    ]
    slanted = user_text(full(position("hex", "b1", "a1"))).split("\n")[1:-1]
    assert slanted == ["  a b c", "1 O X .", " 2 . . .", "  3 . . ."]
    stones = user_text(full(position("go", "B a1", "W c3"))).split("\n")
    assert stones[0] == "You are Black, X. It is your turn." and stones[2:5] == ["3 . . O", "2 . . .", "1 X . ."]
    assert user_text(full(position("nim", "pile:3, take:1;"))).split("\n")[1] == "Piles: A 1, B 2, C 2"
    assert "\n1 ? X ?\n" in user_text(full(position("phantom_ttt", "x(0,1)", "o(2,2)")))


def test_what_is_known_of_the_rounds_of_goofspiel() -> None:
    seen = full(position("goofspiel", "[P0]Bid: 3", "[P1]Bid: 1"))
    assert seen.moves == ("[P0]Bid: 1", "[P0]Bid: 2")
    assert user_text(seen).split("\n")[1:] == [
        "Point card: 2",
        "Points: you 3, the other 0",
        "Earlier point cards: 3 (you bid 3, won)",
        "Moves: card 1, card 2",
    ]


def test_both_replies_of_a_pair_can_be_typed_in_its_situation() -> None:
    asked = [prompt for number in range(60) for prompt in whole(number % 20 + 20 * number, number)[:6]]
    by_messages: dict[str, Observation] = {str(prompt.messages): prompt.observation for prompt in asked}
    rows = preference_pairs(asked, 60, Random(2))
    kinds: dict[str, int] = defaultdict(int)
    for messages, chosen, rejected in rows:
        seen = by_messages[str(messages)]
        kinds[seen.game.name] += 1
        for text in (chosen, rejected):
            assert RULES.refusal(seen, parse_reply(text).action) is None
    assert len(rows) >= 40 and len(kinds) >= 6
