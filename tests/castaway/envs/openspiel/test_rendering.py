"""The renderings: boards as people draw them and moves by name, or every cell by one word, the same for both sides."""

from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.openspiel.boards import judgement
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import GAMES, Observation, Rendering, player_count
from castaway.envs.openspiel.ids import Episode, tables_named, task_id_of
from castaway.envs.openspiel.players import expert
from castaway.envs.openspiel.prompting import MenuRules, messages
from castaway.envs.openspiel.rendering import names, user_text
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import parse_reply
from tests.castaway.envs.openspiel.test_prompting import CHANCE_TO_WIN, START, THREAT, position

RULES = MenuRules()
SMALL = (
    "tic_tac_toe", "connect_four 4x5", "liars_dice one die", "goofspiel 8 cards", "phantom_ttt silent",
    "dark_hex 3x3", "hex 3x3", "nim 1 3 5 7", "go 3x3", "clobber 2x5", "dots_and_boxes 2x2", "othello", "dark_chess",
)  # fmt: skip
"""The games that are trained, and others that are as short."""
LONGEST = 400
"""Characters of a user message in these games; at 2.7 characters a token, as in boards, 150 tokens."""


def whole(task_id: int, seed: int, rendering: Rendering = "full") -> list[Prompt]:
    """The prompts of an episode of a random player."""
    environment, random, found = OpenSpielEnvironment(rendering=rendering), Random(seed), []
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
@settings(max_examples=15)
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
@settings(max_examples=5)
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
    assert user_text(full(position("nim", "pile:3, take:1;"))).split("\n")[1] == "Piles: A 1, B 2, C 2"
    assert "\n1 ? X ?\n" in user_text(full(position("phantom_ttt", "x(0,1)", "o(2,2)")))
    assert user_text(full(position("clobber", "b2b1"))).split("\n")[1:-1] == [
        "  a b c d e", "2 X . X O X", "1 O O O X O"
    ]  # fmt: skip
    assert user_text(full(position("dots_and_boxes", "P1(h,0,0)", "P2(v,0,0)", "P1(h,1,0)", "P2(v,0,1)"))).split("\n")[
        :-1
    ] == [
        "You are player 2. It is your turn.",
        "  a   b   c",
        "1 +---+   +",
        "  | 2 |",
        "2 +---+   +",
        "Boxes: you 1, the other 0",
    ]
    assert "\n3 . . . X . . . .\n4 . . . X X . . .\n" in user_text(full(position("othello", "d3")))
    # White's pawn on b3 stands before Black's king, and nothing is seen behind it.
    assert user_text(full(position("dark_chess", "axb3"))).split("\n") == [
        "You are Black. It is your turn.",
        "  a b c d",
        "4 r . k r",
        "3 p P p p",
        "2 . P P P",
        "1 ? ? ? ?",
        "Moves: a2, axb2, cxb2, dxc2, cxd2, Kxb3, Kb4, Rb4",
    ]
    bidding = user_text(full(position("goofspiel", "[P0]Bid: 3", "[P1]Bid: 1"))).split("\n")
    assert bidding[2:4] == ["Points: you 3, the other 0", "Earlier point cards: 3 (you bid 3, won)"]


# The compact rendering ---------------------------------------------------------------------------------------------


def told(seen: Observation, rendering: str = "compact") -> list[str]:
    return messages(replace(seen, rendering=rendering))[1]["content"].split("\n")


@pytest.mark.parametrize("game", range(len(GAMES)), ids=lambda game: GAMES[game].name)
def test_every_move_has_a_name_of_one_word_and_what_is_named_is_what_is_judged(game: int) -> None:
    for variant in range(len(GAMES[game].variants)):
        for prompt in whole(task_id_of(Episode(game, variant, 0, 1, 0)), variant, "assisted"):
            seen, called = prompt.observation, names(prompt.observation)
            assert len(set(called)) == len(called) == len(seen.moves)
            assert all(name and " " not in name for name in called)
            for at, name in enumerate(called, 1):
                assert RULES.repair(seen, f"move {name}") == str(at) or "_" in name
            lines, judged = prompt.messages[1]["content"].split("\n"), judgement(seen)
            safe = judged.safe if len(judged.safe) < len(called) and not judged.wins else ()
            for kind, places in (("wins", judged.wins), ("safe", safe)):
                shown = [line.split()[1:] for line in lines if line.startswith(f"{kind} ")]
                assert shown == ([[called[at] for at in places]] if places else [])


def test_tic_tac_toe_by_hand() -> None:
    assert told(START) == ["board", "moves 1: a1 2: b1 3: c1 4: a2 5: b2 6: c2 7: a3 8: b3 9: c3"]
    assert told(THREAT) == ["board +a3 -a1 -b1", "moves 1: c1 2: a2 3: b2 4: c2 5: b3 6: c3"]
    assert messages(replace(THREAT, rendering="compact"))[0]["content"] == "tic_tac_toe standard o"


def test_threats_are_named_only_in_the_assisted_rendering() -> None:
    assert "safe" not in " ".join(told(THREAT)) and "wins" not in " ".join(told(CHANCE_TO_WIN))
    assert told(THREAT, "assisted")[1] == "safe c1"
    assert told(CHANCE_TO_WIN, "assisted")[1] == "wins c1"
    assert told(START, "assisted") == told(START)


def test_other_boards_by_hand() -> None:
    boxes = position("dots_and_boxes", "P1(h,0,0)", "P2(v,0,0)", "P1(h,1,0)")
    assert told(boxes)[:3] == ["own 0 other 0", "box1 b1b2", "box4 b1c1 b2c2 b1b2 c1c2"]
    assert told(position("othello", "d3")) == [
        "own 1 other 4", "board", "left4 c3", "left5 e3 c5", "moves 1: c3 2: e3 3: c5"
    ]  # fmt: skip
    assert told(position("clobber", "b2b1"))[1] == "fights1"
    seen = position("dark_chess", "axb3", "Kxb3")
    assert messages(seen)[0]["content"] == "dark_chess 4x4 White"
    assert told(seen) == [
        "king +c1 -b3",
        "rook +a1 +d1",
        "pawn +b2 +c2 +d2 -a3 -c3 -d3",
        "takes king c2b3",
        "takes pawn a1a3 b2a3 b2c3 d2c3 c2d3",
        "moves 1: c1b1 2: a1b1 3: a1a2 4: a1a3 5: b2a3 6: c2b3 7: b2c3 8: d2c3 9: c2d3",
    ]
