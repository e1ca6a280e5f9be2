"""The turns that stand in the documents are what the code writes, but for where lines are broken."""

from pathlib import Path

from castaway.envs.marooned.params import MaroonedParams
from castaway.envs.marooned.task import Marooned
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.task import OpenSpiel
from castaway.tasks.registry import read_params
from castaway.tasks.task import Task

ROOT = Path(__file__).parents[2]


def turn(task: Task, task_id: int, seat: str, number: int, agent: str) -> list[str]:
    """System message, user message and the expert's reply in turn `number`, from 0, of an episode of experts."""
    environment = task.make()
    environment.reset(task_id, seat)
    for _ in range(number):
        environment.step({prompt.agent: task.expert(prompt).action for prompt in environment.prompts()})
    prompt = next(prompt for prompt in environment.prompts() if prompt.agent == agent)
    return [*(message["content"] for message in prompt.messages), str(task.expert(prompt))]


def holds(page: str, parts: list[str]) -> None:
    written = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    for part in parts:
        assert " ".join(part.split()) in written


def test_a_turn_of_tic_tac_toe() -> None:
    game = read_params(ROOT / "params.yaml").tasks["openspiel"].game.model_copy(update={"rendering": "full"})
    task = OpenSpiel(game)
    holds("openspiel.md", turn(task, task_id_of(Episode(0, 0, 1, 3, 3)), "random", 1, "player"))


def test_a_turn_on_the_skiff() -> None:
    task = Marooned(MaroonedParams(scenario="skiff", rendering="full", traitor_share=0.2))
    holds("marooned.md", turn(task, 0, "all", 10, "Bob"))
