"""A run whose replies vLLM draws in PPO and in evaluation, and its merged model as vLLM serves it to others."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import httpx
import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows
from castaway.models.policy import load_model
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation
from castaway.rollout.server import running
from castaway.rollout.vllm import Serving
from castaway.tasks.environment import HELD_OUT_START, Prompt
from castaway.tasks.task import Task
from stages import evaluate
from stages.context import Context
from tests.castaway.rl.small import ROOT
from tests.families import write_family
from tests.miniature import edited
from tests.test_families import built, context_of, texts, update, write_params
from tests.vllm.test_sampler import TEMPERATURE, differences

RUN = "strictbot"
SERVED: dict[str, dict[str, Any]] = {
    "sft": {"learning_rate": 1e-2},
    "ppo": {
        "learning_rate": 1e-2,
        "rollout": {"sampler": "vllm", "episodes_per_step": 4},
        "loss": {"importance_cap": 2.0},
    },
    "correction_sft": {"learning_rate": 1e-1},
    "evaluate": {"sampler": "vllm", "temperature": TEMPERATURE},
}
"""The rates are high, and there are corrections for two steps: the first of a warm-up trains at a rate of 0."""
LONGEST = 24
WEIGHTS = {"base": [], "sft": ["sft"], "ppo": ["sft", "ppo"], "final": ["sft", "correction_sft"]}
"""The stages whose adapters a policy plays with."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parameters of the run, on a random model."""
    root = tmp_path_factory.mktemp("served")
    write_family("qwen2", root / "model", texts())
    write_params(root, "model", "float32")
    (root / ".venv-vllm").symlink_to(ROOT / ".venv-vllm")
    with edited(root / "params.yaml") as params:
        update(params, SERVED)
    return root


class Asked(NamedTuple):
    """What the policies of the evaluation said to some prompts, and how many servers ran beside each scripted one."""

    answers: dict[str, list[Generation]]
    left: list[int]


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked({}, [])


@pytest.fixture(scope="module")
def metrics(root: Path, asked: Asked) -> dict[str, dict[str, Any]]:
    """Of all stages; before the evaluation plays with a policy, it is asked."""
    players = evaluate._players

    def asking(context: Context, task: Task[Any]) -> evaluate.Players:
        for together in players(context, task):
            for name, policy in together.items():
                if name in WEIGHTS:
                    asked.answers[name] = policy(prompts_of(task))
                elif name in evaluate.SCRIPTED:
                    asked.left.append(len(servers(root)))
            yield together

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "_players", asking)
        return built(root, RUN)


def prompts_of(task: Task[Any]) -> list[Prompt]:
    """Of the first turns of some held-out episodes."""
    prompts: list[Prompt] = []
    for task_id in range(HELD_OUT_START, HELD_OUT_START + 4):
        environment = task.make()
        environment.reset(task_id, task.evaluation_seats[0])
        prompts += environment.prompts()
    return prompts


def servers(root: Path) -> list[psutil.Process]:
    """The servers of models in a folder."""
    running = psutil.process_iter(["cmdline"])
    return [one for one in running if any(str(root) in part for part in one.info["cmdline"] or [])]


def test_a_server_draws_the_replies_of_ppo_and_of_the_evaluation(root: Path, metrics: dict[str, Any]) -> None:
    assert metrics["ppo"]["steps"] == 2
    assert {metrics["evaluate"][name]["episodes"] for name in ("base", "sft", "sft_best_of_2", "ppo", "final")} == {1}
    for stage in ("ppo", "evaluate"):
        assert "Application startup complete" in (root / "scratch" / RUN / stage / "sampler/log").read_text("utf-8")
    assert servers(root) == []


def test_each_policy_is_drawn_from_its_own_weights(root: Path, metrics: dict[str, Any], asked: Asked) -> None:
    context = context_of(root, RUN, "evaluate")
    folders = {name: [context.folder(stage) for stage in stages] for name, stages in WEIGHTS.items()}
    actors = {name: ActorCritic(load_model(context.folder("base"), places)) for name, places in folders.items()}
    assert list(asked.answers) == list(actors)
    for name, answers in asked.answers.items():
        found = {other: mean(differences(actor, answers)) for other, actor in actors.items()}
        assert found.pop(name) < 1e-4
        assert min(found.values()) > 1e-3
    assert asked.left == [0] * len(evaluate.SCRIPTED), "the last of them is done when the demonstrators play"


def test_a_failure_leaves_no_server(root: Path, metrics: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        assert servers(root)
        raise ValueError("an episode failed")

    monkeypatch.setattr(evaluate, "play_episodes", fail)
    with pytest.raises(ValueError, match="an episode failed"):
        evaluate.run(context_of(root, RUN, "evaluate"))
    assert servers(root) == []


def test_the_merged_model_answers_there_as_in_transformers(root: Path, metrics: dict[str, Any]) -> None:
    folder = root / "data" / RUN / "merge"
    tokenizer, model = ChatTokenizer.load(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = read_rows(root / "data" / RUN / "dataset/demonstrations.jsonl", DEMONSTRATIONS).take(4)
    serving = Serving(str(folder), "merged", port=0, environment=ROOT / ".venv-vllm", log=root / "merged.log")
    settings = {"model": "merged", "temperature": 0.0, "max_tokens": LONGEST, "return_token_ids": True}
    with running(serving) as server, httpx.Client(trust_env=False, timeout=60) as client:
        for row in rows:
            asked = client.post(f"{server.url}/chat/completions", json={**settings, "messages": row["prompt"]})
            body = asked.raise_for_status().json()
            prompt = tokenizer.prompt(row["prompt"])
            assert body["prompt_token_ids"] == prompt
            drawn = model.generate(torch.tensor([prompt]), max_new_tokens=LONGEST, do_sample=False)
            assert body["choices"][0]["token_ids"] == drawn[0, len(prompt) :].tolist()
