"""Measures the shares of a PPO step's time: a step in MAROONED, with clocks around the operations of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from benchmarks.rollouts import untrained
from castaway.config.params import Params, merged
from castaway.config.ppo import PpoParams
from castaway.metrics.markdown import table
from castaway.models.policy import new_adapter
from castaway.models.reward import RewardScorer, Scale
from castaway.models.tokens import ChatTokenizer
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.rollout import policies
from castaway.rollout.actor_critic import ActorCritic
from castaway.tasks.registry import task_of
from castaway.tasks.verdict import Teacher
from castaway.teacher.rules import RulesTeacher
from castaway.tracking.records import peak_memory

PARTS = ("token sampling", "forward passes", "backward passes", "optimiser", "everything else")


def share_table(params: Params, turns: int, rounds: int) -> str:
    """A Markdown table of times and shares in `rounds` steps of `turns` turns, after one step to warm up."""
    trainer = trainer_of(params, turns)
    trainer.step()
    spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    began = perf_counter()
    tokens = 0
    with clocks(spent):
        for _ in range(rounds):
            tokens += int(trainer.step()["turns"])
    whole = perf_counter() - began
    spent["everything else"] = whole - sum(spent.values())
    rows = [[part, f"{seconds / rounds:.2f}", f"{100 * seconds / whole:.1f} %"] for part, seconds in spent.items()]
    rows.append(["the step", f"{whole / rounds:.2f}", "100.0 %"])
    scenario = task_of(params, "marooned").game.scenario
    head = (
        f"{scenario}, {tokens // rounds} turns a step in {params.ppo.rollout.episodes_per_step} episodes, "
        f"{params.ppo.epochs} epochs, the tiny model and a reward model of its size; means of {rounds} steps. "
        f"Peak memory of the process: {peak_memory():.2f} GiB."
    )
    return f"{head}\n\n{table(['part', 'seconds', 'share'], rows)}"


def trainer_of(params: Params, turns: int | None, teacher: Teacher | None = None) -> PpoTrainer:
    """The trainer of the stage `ppo`, on an untrained model and without SFT passes.

    Args:
        params: all parameters.
        turns: turns per step; None to play whole episodes.
        teacher: judges the replies; None for the rules.
    """
    from transformers import LlamaForSequenceClassification

    tokenizer, model = untrained(params)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    config = model.config
    config.num_labels = 1
    classifier = LlamaForSequenceClassification(config)
    chat = ChatTokenizer(tokenizer)
    scorer = RewardScorer(classifier.model, classifier.score.weight.detach(), chat, Scale(0.0, 1.0))
    settings = PpoParams.model_validate(
        merged(params.ppo, {"rollout": {"turns_per_step": turns}, "corrections": {"sft_interval": 10**6}})
    )
    return PpoTrainer(
        ActorCritic(new_adapter(model, settings.lora)),
        chat,
        lambda: task_of(params, "marooned").make(),
        teacher or RulesTeacher(task_of(params, "marooned").make().rules),
        scorer,
        settings,
        params.seed,
        EpisodeSource(
            task_of(params, "marooned").curriculum(settings.rollout.episodes_per_step),
            settings.replay,
            params.seed,
            "crew",
        ),
    )


@contextmanager
def clocks(spent: dict[str, float]) -> Iterator[None]:
    """Context in which the parts of a step add their seconds to `spent`."""
    places: list[tuple[Any, str, str]] = [
        (policies, "sample_replies", "token sampling"),
        (ActorCritic, "score", "forward passes"),
        (RewardScorer, "raw", "forward passes"),
        (torch.Tensor, "backward", "backward passes"),
        (torch.optim.AdamW, "step", "optimiser"),
    ]
    originals = [getattr(owner, name) for owner, name, _ in places]
    for (owner, name, part), original in zip(places, originals, strict=True):
        setattr(owner, name, _clocked(original, part, spent))
    try:
        yield
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def _clocked(original: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    """A function that calls `original` and adds its seconds to `spent[part]`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            spent[part] += perf_counter() - began

    return call
