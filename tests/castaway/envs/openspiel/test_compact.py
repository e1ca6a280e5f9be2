"""Situations in few words: every cell by one name, and the same game for both sides of Hex."""

from dataclasses import replace
from random import Random

import pytest

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.compact import names, situation
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.prompting import messages
from castaway.envs.openspiel.tactics import judgement
from tests.castaway.envs.openspiel.test_menu import CHANCE_TO_WIN, START, THREAT, position

BOARDS = [(game, variant) for game in range(len(GAMES)) for variant in range(len(GAMES[game].variants))]


def told(seen: Observation, rendering: str = "compact") -> list[str]:
    return messages(replace(seen, rendering=rendering))[1]["content"].split("\n")


@pytest.mark.parametrize(("game", "variant"), BOARDS)
def test_every_move_has_a_name_of_one_word_that_no_other_has(game: int, variant: int) -> None:
    environment, random = OpenSpielEnvironment(rendering="assisted"), Random(variant)
    for number in range(4):
        seat = number % player_count(GAMES[game], variant)
        environment.reset(task_id_of(Episode(game, variant, seat, number, 0)), "random")
        while not environment.done:
            (prompt,) = environment.prompts()
            called = names(prompt.observation)
            assert len(set(called)) == len(called) == len(prompt.observation.moves)
            assert all(name and " " not in name for name in called)
            assert prompt.messages[1]["content"].count("moves 1: ") == 1
            for at, name in enumerate(called, 1):
                assert environment.rules.repair(prompt.observation, f"move {name}") == str(at) or "_" in name
            environment.step({"player": random.choice(environment.rules.legal_actions(prompt.observation))})


def test_tic_tac_toe_by_hand() -> None:
    assert told(START) == ["board", "moves 1: a1 2: b1 3: c1 4: a2 5: b2 6: c2 7: a3 8: b3 9: c3"]
    assert told(THREAT) == ["board +a3 -a1 -b1", "moves 1: c1 2: a2 3: b2 4: c2 5: b3 6: c3"]
    assert messages(replace(THREAT, rendering="compact"))[0]["content"] == "tic_tac_toe standard o"


def test_threats_are_named_only_in_the_assisted_rendering() -> None:
    assert "safe" not in " ".join(told(THREAT)) and "wins" not in " ".join(told(CHANCE_TO_WIN))
    assert told(THREAT, "assisted")[1] == "safe c1"
    assert told(CHANCE_TO_WIN, "assisted")[1] == "wins c1"
    assert told(START, "assisted") == told(START)


def test_what_is_named_is_what_is_judged() -> None:
    environment, random = OpenSpielEnvironment(rendering="assisted"), Random(5)
    kinds = set()
    for number in range(200):
        environment.reset(number, "random")
        while not environment.done:
            (prompt,) = environment.prompts()
            judged, called = judgement(prompt.observation), names(prompt.observation)
            lines = prompt.messages[1]["content"].split("\n")
            for kind, places in (("wins", judged.wins), ("safe", judged.safe)):
                line = next((line for line in lines if line.startswith(f"{kind} ")), None)
                if line:
                    kinds.add(kind)
                    assert line.split()[1:] == [called[at] for at in places]
            environment.step({"player": random.choice(environment.rules.legal_actions(prompt.observation))})
    assert kinds == {"wins", "safe"}


@pytest.mark.parametrize(
    ("seen", "text", "first"),
    [
        (position("connect_four", "x1", "o1"), "board +b1 -b2", ("a1", "b3")),
        (position("nim", "pile:3, take:1;"), "piles a1 b2 c2", ("a0", "b1")),
        (position("nim"), "piles a1 b2 c1 c2", ("a0", "b1")),
        (position("goofspiel"), "own 0 other 0\ncard c3", ("c1", "c2")),
        (position("dots_and_boxes", "P1(h,0,0)"), "own 0 other 0\nbox3 h10 v00 v01\nbox4 h01 h11 v01 v02", None),
        (position("go", "B a1", "W c3"), "board +a1 -c3", ("b1", "c1")),
        (position("clobber"), None, None),
    ],
)
def test_other_games_by_hand(seen: Observation, text: str | None, first: tuple[str, ...] | None) -> None:
    compact = replace(seen, rendering="compact")
    assert text is None or situation(compact) == text
    assert first is None or names(compact)[:2] == first


def test_both_sides_of_hex_are_shown_the_same_game() -> None:
    # x at the second cell of the first row is to x what o at the first cell of the second row is to o.
    across = position("hex", "b1", "a1")
    down = position("hex", "c3", "a2", "a1")
    assert situation(replace(across, rendering="compact")) == "board +b1 -a1"
    assert situation(replace(down, rendering="compact")) == "board +b1 -a1 -c3"
