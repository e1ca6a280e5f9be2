"""Every installed task keeps the contract of a task, and what is offered wrongly is refused in one line."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import islice
from random import Random
from typing import Any

import pytest

from castaway.bases.tiny import scripted_documents, task_words
from castaway.config.bases import BaseTextParams, TextParams
from castaway.config.errors import CastawayError
from castaway.envs.marooned.task import Marooned, MaroonedParams
from castaway.rl.episode_source import EpisodeSource, Report
from castaway.tasks import Task
from castaway.tasks.environment import HELD_OUT_START, Played, Prompt, ids_in_a_row
from castaway.tasks.registry import entry_point, game_model, load_task, task_class, task_names, task_of
from castaway.tasks.reply import Reply
from tests.castaway.command import refused
from tests.miniature import GIVEN
from tests.shipped import PARAMS

RUNS = list(PARAMS.tasks)


@pytest.fixture(params=RUNS)
def task(request: pytest.FixtureRequest) -> Task[Any]:
    """The task of every run of params.yaml."""
    return task_of(PARAMS, request.param)


def first_prompts(task: Task[Any]) -> tuple[Prompt, ...]:
    environment = task.make()
    environment.reset(task.training_ids()[0], task.scripted_seat)
    return environment.prompts()


def test_a_task_gives_text_to_read(task: Task[Any]) -> None:
    environment = task.make()
    for prompt in first_prompts(task):
        read = task.practice(prompt.observation, Random(0), 3)
        assert len(read) <= 3 and all(isinstance(one, Reply) for one in read)
        assert isinstance(task.slip(task.expert(prompt), Random(0)), str)
        if task.makes_synthetic:
            made_up = task.synthetic(environment, prompt, Random(0))
            assert (made_up.agent, made_up.role) == (prompt.agent, prompt.role) and made_up.messages != prompt.messages
            assert environment.rules.refusal(made_up.observation, task.expert(made_up).action) is None
    assert all(word and not word.isspace() for word in task.vocabulary())


def test_a_task_reports_numbers_of_what_was_played(task: Task[Any]) -> None:
    environment, played = task.make(), list[Played]()
    for task_id in ids_in_a_row(task.training_ids(), 0, 3):
        environment.reset(HELD_OUT_START + task_id, task.evaluation_seats[0])
        while not environment.done:
            environment.step({prompt.agent: task.expert(prompt).action for prompt in environment.prompts()})
        outcome = environment.outcome()
        assert set(task.curves) <= set(outcome.details)
        played.append(Played(HELD_OUT_START + task_id, task.evaluation_seats[0], outcome, 1, 0))
    figures = task.report([one.outcome for one in played], [False] * 3)
    assert all(isinstance(value, int | float) for value in figures.values())
    assert all(f"{name.removesuffix('_low')}_high" in figures for name in figures if name.endswith("_low"))
    asked = [(one.task_id, one.seat) for one in played]
    yardsticks = {name: [play(*one) for one in asked] for name, play in task.yardsticks().items()}
    beside = task.compare({"final": played, "random": played, **yardsticks})
    assert all(isinstance(name, str) and isinstance(found, dict) for name, found in beside.items())


@pytest.mark.parametrize("run", RUNS)
def test_training_draws_from_a_runs_curriculum(run: str) -> None:
    params, task = PARAMS.for_run(run), task_of(PARAMS, run)
    environment, stages = task.make(), task.curriculum(params.ppo.rollout.episodes_per_step)
    assert {seat for stage in stages for seat in stage.seats} <= set(environment.seats)
    source = EpisodeSource(stages, params.ppo.replay, params.seed, task.evaluation_seats[0], task.kind_of)
    for _ in range(20):
        drawn = source.draw()
        environment.reset(*drawn)
        source.learn([Report(drawn, False, 0.0)])
    assert sum(tally.played for tally in source.tallies.values()) + len(source.failures) >= 20


def test_scripted_play_gives_text_of_every_task(task: Task[Any]) -> None:
    text = BaseTextParams(
        **GIVEN,
        text={task.name: TextParams(episodes=2, game=task.game)},
        synthetic_share=0.5,
        whole_words=True,
        attention="drawn",
    )
    documents = scripted_documents(PARAMS.base, text, PARAMS.seed)
    assert all(document.messages and document.answers for document in islice(documents, 50))
    assert documents == scripted_documents(PARAMS.base, text, PARAMS.seed)
    assert documents != scripted_documents(PARAMS.base, text, PARAMS.seed + 1)
    assert task_words(text) == sorted(set(task.vocabulary()))


# The defaults of the contract --------------------------------------------------------------------------------------


class Plain(Marooned):
    """A task of which nothing is written but what has to be."""

    name = "plain"
    makes_synthetic = False
    scripted_seat = Task.scripted_seat  # type: ignore[assignment]
    curriculum, practice, slip, synthetic = Task.curriculum, Task.practice, Task.slip, Task.synthetic  # type: ignore[assignment]


def test_what_is_not_written_has_a_default() -> None:
    task = Plain(MaroonedParams(scenario="skiff", rendering="compact", traitor_share=0.2))
    (stage,), prompt = task.curriculum(7), first_prompts(task)[0]
    assert (task.scripted_seat, stage.seats, len(stage.task_ids)) == ("crew", ("crew",), HELD_OUT_START)
    assert task.slip(Reply("aim", "WAIT"), Random(0)) != str(Reply("aim", "WAIT"))
    assert task.synthetic(task.make(), prompt, Random(0)) == prompt


# The entry points ----------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What installed packages offer, name and value, beside the tasks of this repository: to be filled by a test."""
    more: list[tuple[str, str]] = []

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        here = [(one, f"castaway.envs.{one}.task:{one}") for one in ("marooned", "openspiel", "strictbot")]
        points = [EntryPoint(one, value, group) for one, value in [*here, *more]]
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr("castaway.tasks.registry.entry_points", entry_points)
    task_class.cache_clear()
    yield more
    task_class.cache_clear()


def test_a_package_from_outside_comes_in_by_the_same_door(offered: list[tuple[str, str]]) -> None:
    offered.append(("plain", f"{__name__}:Plain"))
    assert task_names() == ["marooned", "openspiel", "plain", "strictbot"]
    game = game_model("plain")(**{"scenario": "skiff", "rendering": "compact", "traitor_share": 0.2})
    assert type(load_task("plain", game)) is task_class("plain")


def test_no_such_task(offered: list[tuple[str, str]]) -> None:
    with pytest.raises(CastawayError, match=r"offers the task 'maroon' .*; did you mean marooned\?"):
        task_class("maroon")
    with pytest.raises(CastawayError, match=r"the task 'chess' .*; expected one of marooned, openspiel, strictbot"):
        task_class("chess")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("pathlib:Path", "the task 'lights' is pathlib:Path, which is no subclass of castaway.tasks.Task"),
        ("math:pi", "the task 'lights' is math:pi, which is no subclass"),
        ("no_such_package.task:Lights", "cannot be imported from no_such_package.task:Lights: No module named"),
        ("pathlib:Lights", "cannot be imported from pathlib:Lights: "),
    ],
)
def test_an_entry_point_that_is_no_task(offered: list[tuple[str, str]], value: str, words: str) -> None:
    offered.append(("lights", value))
    assert words in refused(task_class, "lights")


def test_a_name_that_is_offered_twice(offered: list[tuple[str, str]]) -> None:
    offered += [("lights", "one.task:Lights"), ("lights", "other.task:Lights")]
    with pytest.raises(CastawayError, match=r"'lights' is offered twice, by one.task:Lights and other.task:Lights"):
        task_class("lights")
    offered[-1] = offered[-2]  # one package, found by two ways of installing it
    assert entry_point("lights").value == "one.task:Lights"
