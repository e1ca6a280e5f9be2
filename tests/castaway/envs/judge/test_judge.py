"""Judging as a task: its environment keeps the contract, and what is learned are the verdicts of the rules."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import demonstration, reply_text
from castaway.datasets.scripted import Situation, play_scripted
from castaway.envs.judge.task import Judge, JudgeParams
from castaway.tasks.registry import load_task, read_params, task_of
from castaway.teacher.agreement import dispute
from castaway.teacher.protocol import answer_schema, parse_answer, question
from castaway.tools.checker import check_environment
from tests.miniature import set_params
from tests.shipped import PARAMS, ROOT

RUNS = ("marooned", "openspiel", "strictbot")


def judge_of(run: str) -> Judge:
    block = PARAMS.tasks[run]
    game = {"task": block.task, "game": block.game.model_dump()}
    task = load_task("judge", JudgeParams.model_validate(game))
    assert isinstance(task, Judge)
    return task


def turns_of(task: Judge, episodes: int) -> list[Situation]:
    ids = task.training_ids()[:episodes]
    return play_scripted(task.make(), task.scripted_seat, ids, lambda random: task.demonstrator(random, 0.5))


@pytest.mark.parametrize("run", RUNS)
def test_it_keeps_the_contract_whatever_is_judged(run: str) -> None:
    check_environment(judge_of(run).make, judge_of(run).training_ids()[:1])


@pytest.mark.parametrize("run", RUNS)
def test_a_target_is_the_verdict_of_the_rules_as_the_schema_allows_it(run: str) -> None:
    task, schema = judge_of(run), answer_schema()
    rubric, rules = task_of(PARAMS, run).rubric(), task.make().judged_rules
    turns = turns_of(task, 3 if run == "marooned" else 30)
    for prompt, reply in turns:
        text = reply_text(demonstration(prompt.messages, str(reply), prompt.role)["completion"])
        answer, judged = parse_answer(text), prompt.observation
        assert dispute(answer, judged.verdict) is None and answer.said == judged.attempt.reply.action[:200]
        assert list(json.loads(text)) == schema["required"]
        assert answer.penalty in schema["properties"]["penalty"]["enum"]
        assert prompt.messages == tuple(question(rubric, rules, judged.attempt))
    found = Counter(task.situation(prompt) for prompt, _ in turns)
    assert min(found[one] for one in ("illegal", "at fault", "stands")) >= len(turns) / 20, found


def test_an_episode_goes_on_with_the_rules_and_pays_for_agreement() -> None:
    task = judge_of("openspiel")
    right, wrong = task.make(), task.make()
    for environment in (right, wrong):
        environment.reset(task.training_ids()[7], "judge")
    paid = []
    while not right.done:
        (prompt,) = right.prompts()
        assert wrong.prompts()[0].messages == prompt.messages
        paid.append(right.step({prompt.agent: task.expert(prompt).action})[prompt.agent])
        answer = parse_answer(prompt.observation.answer)
        opposite = answer.model_copy(update={"valid": not answer.valid}).model_dump_json()
        assert wrong.step({prompt.agent: opposite})[prompt.agent] == 0
    assert set(paid) == {1.0} and right.outcome().success
    assert wrong.outcome().details == {"score": 0.0} and not wrong.outcome().success


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("tasks.judge.game.game.rendering", "loud", r"tasks\.judge\.game.*game\.rendering is 'loud', expected"),
        ("tasks.judge.game.task", "judge", "a judge of judges has no rules to learn from"),
        ("tasks.judge.game.task", "chess", "no installed package offers the task 'chess'"),
        (
            "tasks.judge.code",
            "castaway/envs/judge",
            r"tasks\.judge\.code is 'castaway/envs/judge', expected castaway/envs",
        ),
        ("teacher.weights", "", "adapter is 'data/judge/sft', expected weights beside it"),
    ],
)
def test_a_wrong_key_is_told_by_its_name(key: str, value: str, sentence: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "profiles" / "teacher.yaml", tmp_path / "params.yaml")
    set_params(tmp_path, {key: value})
    with pytest.raises(CastawayError, match=sentence):
        read_params(tmp_path / "params.yaml")
