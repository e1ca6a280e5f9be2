"""The scripted players, and preference pairs by the value of moves."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from castaway.datasets.scripted import play_scripted
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import GAMES, Game, Rendering, player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.players import (
    AIMLESS,
    BY_LOT,
    CLEAR,
    demonstrator,
    expert,
    extra_replies,
    format_error,
    move_scores,
    move_values,
    preference_pairs,
    reason_text,
)
from castaway.envs.openspiel.prompting import MenuRules
from castaway.tasks.environment import ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tasks.reply import parse_reply
from tests.castaway.envs.openspiel.test_prompting import CHANCE_TO_WIN, START, THREAT, position
from tests.castaway.envs.openspiel.twins import NAMED
from tests.shipped import PARAMS

TASK = task_of(PARAMS, "openspiel")
TRAINING = 700
"""Seeds of chance from here on."""
LUCK = {"oh_hell 1 trick", "euchre lone defender", "sheriff 1 round"}
"""Little can be done about these."""


def success(game: Game, variant: int, episodes: int, play: Callable[[OpenSpielEnvironment], str]) -> float:
    environment, won = OpenSpielEnvironment(), 0
    for number in range(episodes):
        seat = number % player_count(game, variant)
        environment.reset(task_id_of(Episode(GAMES.index(game), variant, seat, TRAINING + number, 200)), "random")
        while not environment.done:
            environment.step({"player": play(environment)})
        won += environment.outcome().success
    return won / episodes


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_the_expert_is_much_better_than_a_random_player(game: Game) -> None:
    for number, variant in enumerate(game.variants):
        assert success(game, number, 100, lambda environment: BY_LOT) == pytest.approx(variant.base_rate, abs=0.2)
        if f"{game.name} {variant.name}" not in LUCK and number < 2:
            rate = success(game, number, 100, lambda environment: expert(environment.prompts()[0]).action)
            assert rate - variant.base_rate > 0.05, variant.name


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_how_far_a_move_falls_short_is_the_share_of_moves_that_are_worth_more(game: Game) -> None:
    environment, random = OpenSpielEnvironment(), Random(5)
    environment.reset(task_id_of(Episode(GAMES.index(game), 0, 0, TRAINING, 0)), "random")
    while not environment.done:
        (prompt,) = environment.prompts()
        legal = environment.rules.legal_actions(prompt.observation)
        worths = [value.worth for value in move_values(prompt.observation)]
        assert TASK.shortfall(prompt, expert(prompt).action) == 0.0 and TASK.shortfall(prompt, BY_LOT) == 1.0
        for action, worth in zip(legal, worths, strict=True):
            assert TASK.shortfall(prompt, action) == sum(one > worth for one in worths) / max(1, len(worths) - 1)
        environment.step({"player": random.choice(legal)})


@pytest.mark.parametrize("rendering", ["compact", "full"])
@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_expert_demonstrator_and_practice_answer_with_legal_moves_and_reasons(game: Game, rendering: Rendering) -> None:
    environment, random, rules = OpenSpielEnvironment(rendering=rendering), Random(3), MenuRules()
    play = demonstrator(random, 0.5)
    for variant in range(len(game.variants)):
        environment.reset(task_id_of(Episode(GAMES.index(game), variant, 0, TRAINING, 0)), "random")
        while not environment.done:
            (prompt,) = environment.prompts()
            seen = prompt.observation
            assert expert(prompt) == expert(prompt)
            for reply in (expert(prompt), *(replies := extra_replies(seen, random, 4))):
                assert reply.reasoning == rules.reason(seen, reply.action)
                assert parse_reply(str(reply)) == reply
            assert len(replies) == min(4, len(seen.moves)) == len({reply.action for reply in replies})
            reply = play(prompt)
            assert rules.refusal(seen, reply.action) is None
            assert reply.reasoning in (reason_text(seen, AIMLESS), expert(prompt).reasoning)
            environment.step({"player": reply.action})


def test_a_slip_is_never_a_legal_answer() -> None:
    random = Random(1)
    environment, rules = OpenSpielEnvironment(rendering="compact"), MenuRules()
    for game in range(len(GAMES)):
        environment.reset(task_id_of(Episode(game, 0, 0, TRAINING, 0)), "random")
        (prompt,) = environment.prompts()
        for _ in range(20):
            slipped = parse_reply(format_error(expert(prompt), random)).action
            named = slipped == expert(prompt).reasoning.split(" ")[-1]
            assert named or rules.refusal(prompt.observation, slipped) is not None


def told(seen: object, move: str) -> str:
    return MenuRules().reason(seen, str(seen.moves.index(move) + 1))  # type: ignore[attr-defined]


def test_reasons_by_hand() -> None:
    assert told(START, "x(1,1)") == "centre b2"
    assert told(START, "x(0,2)") == "corner c1"
    assert told(THREAT, "o(0,2)") == "block c1"
    assert told(THREAT, "o(1,1)") == "risk b2"
    assert told(CHANCE_TO_WIN, "x(0,2)") == "win c1"
    assert MenuRules().reason(START, "0") == "by lot"
    # Two rows at once: nothing that o does can stop both.
    fork = position("tic_tac_toe", "x(0,0)", "o(0,1)", "x(2,0)", "o(1,0)")
    assert told(fork, "x(1,1)") == told(fork, "x(2,2)").replace("c3", "b2") == "force b2"
    assert told(position("nim"), "pile:1, take:1;") == "odd uneven a0"  # 1 xor 2 xor 3 is 0
    assert told(position("nim", "pile:1, take:1;"), "pile:3, take:1;") == "odd 1 balance c2"  # 2 xor 3


@pytest.mark.parametrize(
    ("name", "variant", "text", "moves", "why"),
    [
        ("blackjack", 0, "Phase\nPlayer\nPlayer 0: Cards: H9 S4\nDealer: Cards: ?? CT", ["Hit", "Stand"], "chase Hit"),
        ("blackjack", 0, "Phase\nPlayer\nPlayer 0: Cards: HA S6\nDealer: Cards: ?? C5", ["Hit", "Stand"], "soft Hit"),
        ("pig", 1, "Scores: 0 0, Turn total: 4\nCurrent player: 0", ["roll", "stop"], "more roll"),
        ("pig", 1, "Scores: 16 0, Turn total: 4\nCurrent player: 0", ["roll", "stop"], "wins stop"),
        ("pig", 1, "Scores: 0 18, Turn total: 12\nCurrent player: 0", ["roll", "stop"], "late roll"),
        # Two sixes are wild, so three fives need one of the other's two dice.
        ("liars_dice", 1, "66 1-5", ["2-5", "3-5", "Liar"], "sure 2-5"),
        ("liars_dice", 1, "12 4-5", ["4-6", "Liar"], "doubt Liar"),
        ("sheriff", 0, "T=2 /bribe:3", ["accept", "inspect"], "bribe accept"),
    ],
)
def test_what_is_thought_of_a_situation(name: str, variant: int, text: str, moves: list[str], why: str) -> None:
    seat = 1 if name == "sheriff" else 0
    seen = replace(START, game=NAMED[name], variant=variant, seat=seat, text=text, moves=tuple(moves), history=())
    seen = replace(seen, numbers=tuple(range(len(moves))))
    worths = [move_value.worth for move_value in move_values(seen)]
    assert MenuRules().reason(seen, str(worths.index(max(worths)) + 1)) == why


def test_every_answer_is_preferred_as_often_as_not_and_is_better_where_it_is() -> None:
    ids = ids_in_a_row(TASK.training_ids(), 300_000_000, 60)
    environment = OpenSpielEnvironment(rendering="compact")
    played = play_scripted(environment, "random", ids, lambda random: demonstrator(random, 0.3))
    asked = [prompt for prompt, _ in played]
    by_messages = {str(prompt.messages): prompt.observation for prompt in asked}
    rows = preference_pairs(asked, 80, Random(2))
    assert rows == preference_pairs(asked, 80, Random(2)) and len(rows) == 80
    assert Counter(chosen for _, chosen, _ in rows) == Counter(rejected for _, _, rejected in rows)
    for messages, chosen, rejected in rows:
        worths = move_scores(by_messages[str(messages)])
        better, worse = (worths[int(parse_reply(text).action) - 1] for text in (chosen, rejected))
        assert 1 >= better == max(worths) and better - worse >= CLEAR and worse >= 0
    assert len({messages[0]["content"].split()[0] for messages, _, _ in rows}) >= 8
