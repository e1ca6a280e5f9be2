"""Stages that differ in games and in opponents, from their ids to the failures that are played again."""

from collections import defaultdict
from random import Random

import pytest

from castaway.config.ppo import ReplayParams
from castaway.datasets.scripted import play_scripted
from castaway.envs.openspiel.ids import episode_of, tables_named
from castaway.envs.openspiel.task import OpenSpiel, OpenSpielStageParams
from castaway.rl.episode_source import EpisodeSource, Report
from castaway.tasks.draws import place_of
from castaway.tasks.environment import held_out_ids, ids_in_a_row
from castaway.tasks.registry import task_of
from tests.shipped import PARAMS

STAGES = {
    "easy": (["tic_tac_toe", "nim 1 2 3"], ["random"]),
    "medium": (["dots_and_boxes 2x2", "nim 1 2 3"], ["random", "mcts-2"]),
    "hard": (["dark_chess", "clobber 4x5", "othello"], ["mcts-3", "self"]),
}
GAMES = {"tic_tac_toe", "nim", "dots_and_boxes", "dark_chess", "clobber", "othello"}


@pytest.fixture(scope="module")
def task() -> OpenSpiel:
    stages = {
        name: OpenSpielStageParams(games=games, opponents=opponents, threshold=0.6, floor=0.2, window=10)
        for name, (games, opponents) in STAGES.items()
    }
    return OpenSpiel(task_of(PARAMS, "openspiel").game.model_copy(update=stages))


def games_of(ids: list[int]) -> set[str]:
    return {episode_of(task_id).played.name for task_id in ids}


def test_data_validation_and_evaluation_have_the_games_of_all_stages(task: OpenSpiel) -> None:
    ids = task.training_ids()
    assert len(ids.tables) == 6
    demonstrated = ids_in_a_row(ids, place_of("demonstrations", 1), 12)
    assert games_of(demonstrated) == games_of(ids_in_a_row(ids, place_of("base text", 1), 12)) == GAMES
    assert games_of(ids_in_a_row(ids, place_of("validation", 1), 12)) == games_of(held_out_ids(ids, 80, 12)) == GAMES
    turns = play_scripted(task.make(), task.scripted_seat, demonstrated, lambda random: task.demonstrator(random, 0.4))
    assert {prompt.observation.game.name for prompt, _ in turns} == GAMES
    assert {"random", "mcts-10", "mcts-50", "mcts-2", "mcts-3", "self"} == set(task.make().seats)


def test_each_stage_draws_its_own_games_and_failures_of_one_left_behind_come_back(task: OpenSpiel) -> None:
    stages, environment, random = task.curriculum(8), task.make(), Random(1)
    source = EpisodeSource(stages, ReplayParams(share=0.4, capacity=100, mastery=2), 1, "random", task.kind_of)
    seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
    failed, entered = set[tuple[int, str]](), ["easy"]
    back = 0
    while len(entered) < 5:
        stage = source.curriculum.stage
        drawn = source.draw()
        back += drawn[0] not in stage.task_ids
        assert drawn in failed or (drawn[0] in stage.task_ids and drawn[1] in stage.seats)
        environment.reset(*drawn)  # any stage's opponents, also those of failures
        assert environment.prompts()
        if drawn not in failed:
            seen[stage.name].add((task.kind_of(drawn[0]), drawn[1]))
        # Up to the last stage, and then back by failures.
        won = random.random() < (0.7 if len(entered) < 3 else 0.05)
        source.learn([Report(drawn, won, float(won))])
        failed |= set() if won else {drawn}
        if source.curriculum.stage.name != entered[-1]:
            entered.append(source.curriculum.stage.name)
    assert entered == ["easy", "medium", "hard", "medium", "easy"] and back
    for name, (games, opponents) in STAGES.items():
        assert {seat for _, seat in seen[name]} == set(opponents)
        assert {game for game, _ in seen[name]} <= {game.split()[0] for game in games}
        assert set(tables_named(games).tables) <= set(task.training_ids().tables)
