"""What stands in the documents as an example is what the code writes, and what it reads."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from castaway.envs.marooned.task import Marooned, MaroonedParams
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.task import OpenSpiel
from castaway.metrics.experiments import over_seeds
from castaway.tasks.registry import read_params
from castaway.tasks.task import Task
from castaway.tools.checker import check_environment

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


def test_the_game_of_the_readme_keeps_the_contract() -> None:
    (game,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    written: dict[str, Any] = {}
    exec(game, written)
    check_environment(written["Lamps"], task_ids=range(3))


@pytest.mark.parametrize(
    ("run", "seat"), [("marooned", ""), ("marooned", "traitor_"), ("openspiel", ""), ("strictbot", "")]
)
def test_the_means_of_the_seeds_are_those_of_the_data(run: str, seat: str) -> None:
    kept = json.loads((ROOT / "data" / run / "experiments" / "seeds.json").read_text("utf-8"))
    seeds = [one["policies"] for one in kept["rows"]["as shipped"].values()]
    name, policies = f"{seat}success_rate", ("sft", "final", "expert")
    rates = {policy: [100 * one[policy][name] for one in seeds] for policy in policies}
    sft, final, expert = (over_seeds(values) for values in rates.values())
    above = over_seeds([after - before for before, after in zip(rates["sft"], rates["final"], strict=True)])
    shown = [
        f"{one.value:.1f} % ({max(one.low, 0):.0f} to {min(one.high, 100):.0f})" if one.low < one.high else "100.0 %"
        for one in (sft, final, expert)
    ]
    by_seed = ", ".join(map("{:.1f}".format, rates["final"]))
    more = f"{above.value:+.0f} ({above.low:+.0f} to {above.high:+.0f})"
    row = f"| {shown[0]} | {shown[1]} | {by_seed} % | {more} | {shown[2]} |"
    assert row in (ROOT / "README.md").read_text("utf-8")
