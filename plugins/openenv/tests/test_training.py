"""The example that the openenv package writes with `openenv init`, served as it is, and PPO on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.params import merged
from castaway.config.ppo import PpoParams, ReplayParams
from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.rollout.actor_critic import ActorCritic
from castaway.tasks.environment import Message
from castaway.tasks.registry import game_model, load_task, read_params
from castaway.teacher.rules import RulesTeacher
from castaway.tools.checker import check_environment

from castaway_openenv.params import OpenEnvParams
from castaway_openenv.task import OpenEnv

CLONE = Path(__file__).parents[3]
SERVE = """
import socket, sys, uvicorn
from server.app import app
with socket.create_server(("127.0.0.1", 0)) as listening:
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenEnv]:
    """The echo environment; the one change is the number of sessions, as its own comment says to do."""
    root = tmp_path_factory.mktemp("example")
    command = [sys.executable, "-m", "openenv.cli", "init", "my_echo"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    app = root / "my_echo/server/app.py"
    text = app.read_text("utf-8")
    assert "max_concurrent_envs=1," in text
    app.write_text(text.replace("max_concurrent_envs=1,", "max_concurrent_envs=16,"), "utf-8")
    where = root / "my_echo"
    server = subprocess.Popen([sys.executable, "-c", SERVE], cwd=where, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    game = OpenEnvParams(
        url=server.stdout.readline().strip(),
        instructions="Say something.",
        show=["echoed_message"],
        action="message",
        actions=["hi", "hello there", "good evening to you all"],
        free_text=True,
        turns=3,
        success=2.0,
    )
    assert game_model("openenv") is OpenEnvParams
    made = load_task("openenv", game)
    assert isinstance(made, OpenEnv)
    yield made
    server.kill()
    server.wait()


def test_the_example_keeps_the_contract(task: OpenEnv) -> None:
    check_environment(task.make, task_ids=range(2))


def test_the_players_do_what_is_listed(task: OpenEnv) -> None:
    environment = task.make()
    environment.reset(5, "solo")
    (prompt,) = environment.prompts()
    assert str(task.expert(prompt)) == str(task.expert(prompt))
    assert task.expert(prompt).action in task.game.actions
    rewards = [environment.step({"player": action})["player"] for action in ("hi", "hello there", "a" * 99)]
    assert rewards == [0.2, 1.0, 1.0] and environment.done and environment.outcome().success


class NoScorer:
    """A reward model without an opinion."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        return [0.0] * len(situations)


def test_two_steps_of_ppo(task: OpenEnv) -> None:
    shipped = read_params(CLONE / "params.yaml")
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["REASONING: any\nACTION: hello there", "echoed_message: hi"] * 9, 300)
    small = shipped.base.model_copy(update={"hidden_size": 32, "layers": 2, "heads": 2})
    actor = ActorCritic(new_adapter(new_model(small, tokenizer), LoraParams(rank=4, alpha=8)))
    before = [weight.detach().clone() for weight in actor.parameters() if weight.requires_grad]
    changes = {"steps": 2, "rollout": {"episodes_per_step": 8, "max_new_tokens": 16}}
    params = PpoParams.model_validate(merged(shipped.ppo, changes))
    trainer = PpoTrainer(
        actor,
        ChatTokenizer(tokenizer),
        make=task.make,
        teacher=RulesTeacher(task.make().rules),
        scorer=NoScorer(),
        params=params,
        seed=0,
        source=EpisodeSource(task.curriculum(8), ReplayParams(share=0.0, capacity=1, mastery=1), 0, "solo"),
        curves=task.curves,
    )
    for _ in range(2):
        values = trainer.step()
        assert torch.tensor(list(values.values())).isfinite().all()
        assert values["return"] > 0
    after = [weight for weight in actor.parameters() if weight.requires_grad]
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert trainer.rollouts.source.table()[""]["solo"]["episodes"] == 16
