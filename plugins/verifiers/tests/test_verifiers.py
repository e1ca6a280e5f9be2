"""Environments of verifiers as tasks, and tasks of Castaway as an environment of verifiers, both really run."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="verifiers is installed in an environment of its own")

from castaway.config.errors import CastawayError
from castaway.config.mistakes import explain
from castaway.envs.strictbot.task import Strictbot
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import load_task, read_params
from castaway.tools.checker import check_environment
from pydantic import ValidationError

from castaway_verifiers.clash import demand
from castaway_verifiers.params import VerifiersParams
from castaway_verifiers.task import Verifiers

HERE = Path(__file__).parent
CLONE = HERE.parents[2]
EXAMPLES = ["yes", "no"]
"""For tasksets whose right answers are not named."""


@pytest.fixture(autouse=True)
def _tasksets_are_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(HERE)


def task(id_: str, **changes: Any) -> Verifiers:
    settings: dict[str, Any] = {"tasks": 36, "held_out": 6, "turns": 4, "success": 1.0, **changes}
    made = load_task("verifiers", VerifiersParams(id=id_, **settings))
    assert isinstance(made, Verifiers)
    return made


@pytest.fixture(scope="module")
def sums() -> Verifiers:
    sys.path.insert(0, str(HERE))
    return task("sums-taskset", taskset={"numbers": 6}, answer="answer")


def test_questions_keep_the_contract(sums: Verifiers) -> None:
    check_environment(sums.make, task_ids=range(2))


def test_the_expert_is_right_and_sees_no_answer(sums: Verifiers) -> None:
    environment = sums.make()
    for task_id in (0, 7, HELD_OUT_START, HELD_OUT_START + 5):
        environment.reset(task_id, "all")
        (prompt,) = environment.prompts()
        assert prompt.messages[0]["content"].startswith("Add.\n\nReply with two lines")
        a, b = prompt.messages[1]["content"].removesuffix("?").split(" + ")
        reply = sums.expert(prompt)
        assert reply.action == str(int(a) + int(b))
        assert environment.step({"agent": reply.action}) == {"agent": 2.0}
        assert environment.outcome().success


def test_held_out_tasks_are_not_trained_on(sums: Verifiers) -> None:
    def rows(start: int) -> set[int]:
        environment, found = sums.make(), set()
        for task_id in range(start, start + 40):
            environment.reset(task_id, "all")
            found.add(environment.row)
        return found

    training, held_out = rows(0), rows(HELD_OUT_START)
    assert len(training) == 30 and len(held_out) == 6 and not training & held_out


def test_a_careless_demonstrator_is_wrong_now_and_then(sums: Verifiers) -> None:
    environment = sums.make()
    play, right = sums.demonstrator(Random(1), 0.5), 0
    for task_id in range(30):
        environment.reset(task_id, "all")
        (prompt,) = environment.prompts()
        environment.step({"agent": play(prompt).action})
        right += environment.outcome().success
    assert 10 < right < 28


def test_a_conversation_of_several_agents() -> None:
    game = task("higher-taskset", examples=[str(number) for number in range(10)])
    check_environment(game.make, task_ids=range(1))
    environment = game.make()
    environment.reset(0, "all")
    secret, told = game._host.tasks[environment.row].data.secret, []
    for action in (str((secret + 1) % 10), str(secret), "yes"):
        (prompt,) = environment.prompts()
        told.append((prompt.agent, prompt.messages[1]["content"]))
        paid = environment.step({prompt.agent: action})
    assert told == [
        ("guesser", "guess from 0 to 9"),
        ("guesser", f"guess from 0 to 9\n\nYou said: {(secret + 1) % 10}\n\nanother"),
        ("judge", "was it good?"),
    ]
    assert environment.done and paid == {"guesser": pytest.approx(0.9), "judge": 1.0}


def test_what_fails_in_verifiers_is_told() -> None:
    environment = task("higher-taskset", taskset={"broken": True}, examples=EXAMPLES).make()
    with pytest.raises(CastawayError, match=r"an episode of higher-taskset failed in verifiers: .*out of numbers"):
        environment.reset(0, "all")
    with pytest.raises(CastawayError, match="verifiers cannot load 'no-such-set': taskset 'no-such-set' not found"):
        task("no-such-set", examples=EXAMPLES).make()
    with pytest.raises(CastawayError, match=r"has 4 tasks, of which 6 are held out: lower game\.held_out"):
        task("sums-taskset", taskset={"numbers": 2}, answer="answer").make()
    with pytest.raises(CastawayError, match=r"the data of task 0 of sums-taskset have no field 'info\.answer'"):
        task("sums-taskset", answer="info.answer")._right(0)


@pytest.mark.parametrize("examples", [[], ["yes"], ["yes", "yes"]])
def test_answers_that_cannot_differ_are_refused(examples: list[str]) -> None:
    with pytest.raises(ValidationError) as refused:
        task("sums-taskset", examples=examples)
    assert explain(VerifiersParams, refused.value, ("tasks", "sums", "game")) == (
        "tasks.sums.game.answer is not set, and examples has fewer than two different texts: preference pairs need "
        "answers that differ, so set one of the two"
    )
    assert task("sums-taskset", examples=[*examples, "no", "maybe"]).game.answer == ""


@pytest.mark.parametrize("form", ["[]", "{other}", "{", "{{answer}}", "{0}"])
def test_a_form_without_a_place_for_the_answer_is_refused(form: str) -> None:
    with pytest.raises(ValidationError) as refused:
        task("sums-taskset", answer="answer", form=form)
    assert explain(VerifiersParams, refused.value, ("tasks", "sums", "game")) == (
        f"tasks.sums.game.form is {form!r}, expected a text with {{answer}} at the place of a right answer, and other "
        "braces twice"
    )
    assert task("sums-taskset", answer="answer", form="boxed{{{answer}}}").game.form == "boxed{{{answer}}}"


def test_a_clash_is_one_sentence() -> None:
    demand("verifiers")
    with pytest.raises(ImportError, match="no-such-package is not installed; install castaway-verifiers in an env"):
        demand("no-such-package")
    script = "import importlib.metadata as m; old = m.version\n"
    script += "m.version = lambda name: '1.30.0' if name == 'mcp' else old(name)\nimport castaway_verifiers"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    said = f"verifiers {version('verifiers')} needs mcp==2.0.0, and 1.30.0 is installed; install castaway-verifiers in"
    assert said in done.stderr.splitlines()[-1]


def test_a_task_of_castaway_is_played_through_verifiers_as_it_is_here() -> None:
    """Out and in again: the exported environment, run by verifiers, with a policy of Castaway as its model."""
    game = read_params(CLONE / "params.yaml").tasks["strictbot"].game
    here = Strictbot(game)
    there = task(
        "castaway-verifiers",
        taskset={"params": str(CLONE / "params.yaml"), "run": "strictbot", "game": {"rendering": "compact"}},
        tasks=4,
        held_out=1,
        turns=8,
        examples=EXAMPLES,
    )
    for task_id in range(3):
        abroad, home = there.make(), here.make()
        abroad.reset(task_id, "all")
        home.reset(there._host.tasks[abroad.row].data.episode, here.evaluation_seats[0])
        total = 0.0
        while not home.done:
            (asked,), (prompt,) = abroad.prompts(), home.prompts()
            assert asked.messages[1]["content"].endswith(prompt.messages[-1]["content"])
            action = here.expert(prompt).action
            total += sum(home.step({prompt.agent: action}).values())
            abroad.step({asked.agent: f"ACTION: {action}"})
        assert abroad.done and abroad.outcome().details["return"] == pytest.approx(total)
        assert total != 0
