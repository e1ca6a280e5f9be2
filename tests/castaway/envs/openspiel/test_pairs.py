"""Preference pairs by the value of moves."""

from collections import Counter
from pathlib import Path
from random import Random

from castaway.datasets.scripted import play_scripted
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.pairs import CLEAR, best, preference_pairs, values
from castaway.envs.openspiel.players import demonstrator
from castaway.tasks.environment import Prompt, ids_in_a_row
from castaway.tasks.registry import read_params, task_of
from castaway.tasks.reply import parse_reply
from tests.castaway.envs.openspiel.test_menu import CHANCE_TO_WIN, position

TASK = task_of(read_params(Path(__file__).parents[4] / "params.yaml"), "openspiel")


def prompts(count: int) -> list[Prompt]:
    ids = ids_in_a_row(TASK.training_ids(), 300_000_000, count)
    environment = OpenSpielEnvironment(rendering="compact")
    return [prompt for prompt, _ in play_scripted(environment, "random", ids, lambda random: demonstrator(random, 0.3))]


def test_a_search_finds_the_win_and_the_block() -> None:
    assert CHANCE_TO_WIN.moves[best(CHANCE_TO_WIN)] == "x(0,2)"
    threat = position("tic_tac_toe", "x(0,0)", "o(1,1)", "x(0,1)")
    assert threat.moves[best(threat)] == "o(0,2)"
    assert values(CHANCE_TO_WIN) == values(CHANCE_TO_WIN) and all(0 <= worth <= 1 for worth in values(threat))


def test_every_answer_is_preferred_as_often_as_not_and_is_better_where_it_is() -> None:
    asked = prompts(60)
    by_messages = {str(prompt.messages): prompt.observation for prompt in asked}
    rows = preference_pairs(asked, 80, Random(2))
    assert rows == preference_pairs(asked, 80, Random(2)) and len(rows) == 80
    assert Counter(chosen for _, chosen, _ in rows) == Counter(rejected for _, _, rejected in rows)
    for messages, chosen, rejected in rows:
        worths = values(by_messages[str(messages)])
        better, worse = (worths[int(parse_reply(text).action) - 1] for text in (chosen, rejected))
        assert better == max(worths) and better - worse >= CLEAR
    assert len({messages[0]["content"].split()[0] for messages, _, _ in rows}) >= 8
