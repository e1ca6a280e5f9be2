"""Other traitors take the saboteur's place, crews and traitors share the sailors, and the figures become a table."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import traitors
from castaway.envs.marooned.scripted import Saboteur, Worker
from castaway.envs.marooned.state import distance
from castaway.envs.marooned.task import Marooned
from castaway.metrics.comparisons import traitors_table
from castaway.rl.rollout import Generation, Policy, play_episodes
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.registry import task_of
from castaway.tools.marooned.traitors import Impostor
from tests.castaway.figures import policy
from tests.castaway.rl.small import shipped
from tests.miniature import make_clone


@pytest.fixture(scope="module")
def task() -> Marooned:
    found = task_of(shipped(), "marooned")
    assert isinstance(found, Marooned)
    return found


def test_sailors_are_shared_by_role_and_replies_keep_their_order() -> None:
    def says(word: str) -> Policy:
        def answer(prompts: Sequence[Prompt]) -> list[Generation]:
            return [Generation(f"{word} {prompt.agent}") for prompt in prompts]

        return answer

    messages: tuple[Message, ...] = ()
    roles = {"ann": "colonist", "bob": "traitor", "cat": "colonist"}
    prompts = [Prompt(name, role, messages, None) for name, role in roles.items()]
    both = traitors.divided(says("builds"), says("breaks"))
    assert [reply.text for reply in both(prompts)] == ["builds ann", "breaks bob", "builds cat"]
    assert [reply.text for reply in both(prompts[1:2])] == ["breaks bob"]


def test_an_impostor_never_waits_beside_the_ship_nor_builds(task: Marooned) -> None:
    environment = traitors.environments(task, Impostor)()
    environment.reset(3, "traitor")
    script, verbs = Impostor(), set()
    while not environment.done:
        (prompt,) = environment.prompts()
        seen, action = prompt.observation, script(prompt.observation).action
        verbs.add(action.verb)
        if seen.phase.work and action.verb == "WAIT":
            assert not 0 < distance(seen.place, seen.camp) <= seen.scenario.sabotage_range
        environment.step({prompt.agent: str(action)})
    assert not verbs & {"BUILD", "DEPOSIT"}
    assert verbs & {"GATHER", "MOVE"}


def test_the_named_traitor_plays(task: Marooned) -> None:
    crew = traitors.scripted(Worker)
    games = [(one, "crew") for one in range(20)]

    def wins(make: type) -> list[bool]:
        played = play_episodes(traitors.environments(task, make), games, crew, teacher=None)
        return [episode.outcome.success for episode in played]

    as_shipped = play_episodes(task.make, games, crew, teacher=None)
    assert wins(Saboteur) == [episode.outcome.success for episode in as_shipped]
    assert wins(Impostor) != wins(Saboteur)


def test_what_is_written_is_what_the_table_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_clone(tmp_path)
    monkeypatch.setattr(traitors, "ROOT", tmp_path)
    # Playing needs trained models; a figure is enough to be written and read.
    monkeypatch.setattr(traitors, "measure", lambda *_: {"final": {"saboteur": policy(0.9)}})
    assert traitors.main(["--episodes", "7"]) == 0
    found = json.loads((tmp_path / "data" / "marooned" / "metrics" / "traitors.json").read_text("utf-8"))
    assert "7 validation games each" in traitors_table(found)


def test_a_run_of_another_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert traitors.main(["--task", "strictbot"]) == 2
    assert "strictbot is a run of strictbot, not of marooned" in capsys.readouterr().err


def test_a_row_for_each_traitor() -> None:
    crews = {"expert": {"saboteur": policy(0.5)}, "final": {"saboteur": policy(0.9)}}
    text = traitors_table({"episodes": 200, "revision": "abc1234", "crews": crews})
    assert "200 validation games each, at commit abc1234" in text
    assert text.splitlines()[-1] == "| saboteur | 50.0 % (45.0 to 55.0) | 90.0 % (85.0 to 95.0) |"
