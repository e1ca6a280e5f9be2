"""Every installed task keeps the contract of a task, and what is offered wrongly is refused in one line."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from inspect import isabstract
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from castaway.config.bases import BaseTextParams, TextParams
from castaway.config.params import Params
from castaway.config.section import Section
from castaway.datasets.pretraining import scripted_documents, task_words
from castaway.datasets.scripted import play_scripted
from castaway.envs.marooned.params import MaroonedParams
from castaway.envs.marooned.task import Marooned
from castaway.errors import CastawayError
from castaway.rl.tasks import TaskSource
from castaway.tasks import Task, registry
from castaway.tasks.environment import HELD_OUT_START, Played, Prompt, ids_in_a_row, is_held_out
from castaway.tasks.registry import game_model, load_task, read_params, task_class, task_names, task_of
from castaway.tasks.reply import Reply

PARAMS = read_params(Path(__file__).parents[3] / "params.yaml")
RUNS = list(PARAMS.tasks)


@pytest.fixture(params=RUNS)
def task(request: pytest.FixtureRequest) -> Task[Any]:
    """The task of every run of params.yaml."""
    return task_of(PARAMS, request.param)


def first_prompts(task: Task[Any]) -> tuple[Prompt, ...]:
    environment = task.make()
    environment.reset(task.training_ids()[0], task.scripted_seat)
    return environment.prompts()


@pytest.mark.parametrize("name", task_names())
def test_an_installed_task_is_complete(name: str) -> None:
    found = task_class(name)
    assert found.name == name and not isabstract(found)
    assert issubclass(game_model(name), Section)
    seats = found.evaluation_seats
    assert seats and len(set(seats)) == len(seats) and all(isinstance(text, str) for text in (*seats, *found.curves))
    assert found.aimless and isinstance(found.makes_synthetic, bool)


def test_the_shipped_runs_are_of_installed_tasks() -> None:
    assert {run.task for run in PARAMS.tasks.values()} <= set(task_names())
    assert {"marooned", "openspiel", "strictbot"} <= set(task_names())


def test_a_task_makes_its_environment_and_its_episodes(task: Task[Any]) -> None:
    environment = task.make()
    assert environment.name == task.name
    assert {task.scripted_seat, *task.evaluation_seats} <= set(environment.seats)
    ids = task.training_ids()
    assert not any(map(is_held_out, ids_in_a_row(ids, HELD_OUT_START - 1000, 10)))
    assert isinstance(task.kind_of(ids[0]), str)


def test_a_tasks_players_answer_with_legal_actions(task: Task[Any]) -> None:
    rules, play = task.make().rules, task.demonstrator(Random(0), 0.5)
    for prompt in first_prompts(task):
        for reply in (task.expert(prompt), play(prompt)):
            assert rules.refusal(prompt.observation, reply.action) is None
            assert reply.reasoning
        assert task.expert(prompt) == task.expert(prompt)


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


def test_a_tasks_own_pairs_prefer_one_answer_to_another(task: Task[Any]) -> None:
    prompts = first_prompts(task)
    rows = task.preference_pairs(prompts, 4, Random(0))
    for messages, chosen, rejected in rows or []:
        assert messages and chosen != rejected
        groups = task.pair_groups(messages, chosen, rejected)
        assert all(isinstance(text, str) for row in groups.items() for text in row)
    assert rows is None or len(rows) <= 4
    fits = task.fits([(prompt.messages, str(task.expert(prompt))) for prompt in prompts])
    assert fits is None or len(fits) == len(prompts)


def test_what_a_teacher_is_asked_to_write_is_a_request(task: Task[Any]) -> None:
    asked = task.writing_task(task.make())
    if asked is not None:
        assert asked.schema["type"] == "object" and isinstance("" in asked.known, bool)
        assert asked.request(0) != asked.request(1) and asked.request(0)[-1]["role"] == "user"
        with pytest.raises(ValueError, match=r"."):
            asked.read(0, "no exercise")


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
    beside = task.compare({"final": played})
    assert all(isinstance(name, str) and isinstance(found, dict) for name, found in beside.items())


@pytest.mark.parametrize("run", RUNS)
def test_training_draws_from_a_runs_curriculum(run: str) -> None:
    params, task = PARAMS.for_run(run), task_of(PARAMS, run)
    environment, stages = task.make(), task.curriculum(params.ppo.episodes_per_step)
    assert {seat for stage in stages for seat in stage.seats} <= set(environment.seats)
    source = TaskSource(stages, params.ppo.replay, params.seed, task.evaluation_seats[0], task.kind_of)
    for _ in range(20):
        drawn = source.draw()
        environment.reset(*drawn)
        source.learn([source.report(drawn, False, 0.0)])
    assert sum(tally.played for tally in source.tallies.values()) + len(source.failures) >= 20


def test_scripted_play_gives_text_of_every_task(task: Task[Any]) -> None:
    environment = task.make()
    ids = ids_in_a_row(task.training_ids(), 200_000_000, 3)
    turns = play_scripted(environment, task.scripted_seat, ids, lambda random: task.demonstrator(random, 0.5))
    assert all(environment.rules.refusal(prompt.observation, reply.action) is None for prompt, reply in turns)
    text = BaseTextParams(
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


def test_a_share_of_the_episodes_of_marooned_is_the_traitors() -> None:
    game = MaroonedParams(scenario="skiff", rendering="compact", traitor_share=0.2)
    (stage,) = Marooned(game).curriculum(10)
    assert stage.seats == ("traitor",) * 2 + ("crew",) * 8


# The defaults of the contract --------------------------------------------------------------------------------------


class Plain(Marooned):
    """A task of which nothing is written but what has to be."""

    name = "plain"
    makes_synthetic = False
    scripted_seat = Task.scripted_seat  # type: ignore[assignment]
    curriculum, practice, slip, synthetic = Task.curriculum, Task.practice, Task.slip, Task.synthetic  # type: ignore[assignment]


def test_what_is_not_written_has_a_default() -> None:
    task = Plain(MaroonedParams(scenario="skiff", rendering="compact", traitor_share=0.2))
    assert task.scripted_seat == "crew"
    (stage,) = task.curriculum(7)
    assert (stage.seats, len(stage.task_ids)) == (("crew",), HELD_OUT_START)
    prompt = first_prompts(task)[0]
    assert task.practice(prompt.observation, Random(0), 3) == []
    assert task.slip(Reply("aim", "WAIT"), Random(0)) != str(Reply("aim", "WAIT"))
    assert task.synthetic(task.make(), prompt, Random(0)) == prompt
    assert (task.vocabulary(), task.kind_of(3)) == ([], "game")
    assert task.preference_pairs([prompt], 3, Random(0)) is None
    assert task.writing_task(task.make()) is None and task.fits([]) is None
    assert (dict(task.pair_groups((), "a", "b")), task.report([], []), task.compare({})) == ({}, {}, {})


def test_what_has_to_be_written_has_none() -> None:
    class Half(Task[MaroonedParams]):
        """Nothing at all."""

    assert Half.__abstractmethods__ == {"make", "expert", "demonstrator"}
    with pytest.raises(TypeError, match="abstract"):
        Half(MaroonedParams(scenario="skiff", rendering="compact", traitor_share=0.2))  # type: ignore[abstract]


# The entry points ----------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What installed packages offer, name and value, beside the tasks of this repository: to be filled by a test."""
    more: list[tuple[str, str]] = []

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        here = [(one, f"castaway.envs.{one}.task:{one}") for one in ("marooned", "openspiel", "strictbot")]
        points = [EntryPoint(one, value, group) for one, value in [*here, *more]]
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
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
    with pytest.raises(CastawayError, match=r"offers the task 'chess' .*; there are marooned, openspiel, strictbot"):
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
    with pytest.raises(CastawayError) as caught:
        task_class("lights")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_that_is_offered_twice(offered: list[tuple[str, str]]) -> None:
    offered += [("lights", "one.task:Lights"), ("lights", "other.task:Lights")]
    with pytest.raises(CastawayError, match=r"'lights' is offered twice, by one.task:Lights and other.task:Lights"):
        task_class("lights")
    offered[-1] = offered[-2]  # one package, found by two ways of installing it
    assert registry.entry_point("lights").value == "one.task:Lights"


def test_no_such_run() -> None:
    with pytest.raises(CastawayError, match=r"no run 'raft' under tasks; it has marooned, "):
        task_of(PARAMS, "raft")
    assert isinstance(PARAMS, Params)
