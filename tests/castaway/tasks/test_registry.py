"""Every task offers what the registry says, and every part of it can be used together."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from castaway.config.params import BaseTextParams
from castaway.datasets.pretraining import scripted_documents
from castaway.datasets.scripted import play_scripted
from castaway.rl.tasks import TaskSource
from castaway.tasks.environment import HELD_OUT_START, ids_in_a_row, is_held_out
from castaway.tasks.registry import TASKS, make_environment, task_module
from castaway.tasks.reply import Reply

PARAMS = read_params(Path(__file__).parents[3] / "params.yaml")


@pytest.mark.parametrize("task", TASKS)
def test_a_task_offers_what_the_registry_says(task: str) -> None:
    module, environment = task_module(task), make_environment(PARAMS, task)
    assert environment.name == task
    assert {module.SCRIPTED_SEAT, *module.EVALUATION_SEATS} <= set(environment.seats)
    ids = module.training_ids(getattr(PARAMS, task))
    assert not any(map(is_held_out, ids_in_a_row(ids, HELD_OUT_START - 1000, 10)))
    environment.reset(ids[0], module.SCRIPTED_SEAT)
    for prompt in environment.prompts():
        reply = module.expert(prompt)
        assert environment.rules.refusal(prompt.observation, reply.action) is None
        assert all(isinstance(one, Reply) for one in module.practice(prompt.observation, Random(0), 3))
        if hasattr(module, "imagine"):
            made_up = module.imagine(environment, prompt, Random(0))
            assert (made_up.agent, made_up.role) == (prompt.agent, prompt.role) and made_up.messages != prompt.messages
        assert isinstance(module.slip(reply, Random(0)), str) and isinstance(module.AIMLESS, str)
    assert isinstance(module.kind_of(ids[0]), str)


@pytest.mark.parametrize("task", TASKS)
def test_training_draws_from_a_tasks_curriculum(task: str) -> None:
    module, environment = task_module(task), make_environment(PARAMS, task)
    stages = module.curriculum(PARAMS)
    assert {seat for stage in stages for seat in stage.seats} <= set(environment.seats)
    source = TaskSource(stages, PARAMS.ppo.replay, PARAMS.seed, module.EVALUATION_SEATS[0], module.kind_of)
    for _ in range(20):
        drawn = source.draw()
        environment.reset(*drawn)
        source.learn([source.report(drawn, False, 0.0)])
    assert sum(tally.played for tally in source.tallies.values()) + len(source.failures) >= 20


@pytest.mark.parametrize("task", TASKS)
def test_scripted_play_gives_text_of_every_task(task: str) -> None:
    module, environment = task_module(task), make_environment(PARAMS, task)
    ids = ids_in_a_row(module.training_ids(getattr(PARAMS, task)), 200_000_000, 3)
    turns = play_scripted(environment, module.SCRIPTED_SEAT, ids, lambda random: module.demonstrator(random, 0.5))
    assert all(environment.rules.refusal(prompt.observation, reply.action) is None for prompt, reply in turns)
    text = BaseTextParams(episodes={task: 2}, imagined=0.5, whole_words=True, attention="drawn")
    documents = scripted_documents(PARAMS, text)
    assert all(document.messages and document.answers for document in islice(documents, 50))
    assert documents == scripted_documents(PARAMS, text)


def test_two_of_ten_episodes_of_marooned_are_the_traitors() -> None:
    (stage,) = task_module("marooned").curriculum(PARAMS)
    assert stage.seats == ("traitor",) * 2 + ("crew",) * 8
