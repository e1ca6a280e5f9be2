"""Compares the speed of multi-turn rollouts with our sampler, with transformers' `generate`, and with TRL.

All use the same episodes, rollout code, environment and teacher; only the sampler differs. TRL's GRPOTrainer expects a
`rollout_func` for episodes of several turns; here that is our rollout, with TRL generating the replies. The model is
untrained and generates exactly `ppo.rollout.max_new_tokens` tokens per turn.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from benchmarks.timing import timed, winner
from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.models.policy import new_adapter
from castaway.models.tokens import ChatTokenizer, pad_left
from castaway.rl.rollouts import ContinuingRollout
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation, Policy
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import Prompt
from castaway.tasks.registry import task_of
from castaway.teacher.rules import RulesTeacher

NO_STOP: frozenset[int] = frozenset()
"""A stop token that is never sampled, so that all replies have the same length."""


def rollout_table(params: Params, episodes: int, rounds: int) -> str:
    """A Markdown table of turns per second with `episodes` parallel episodes; medians of `rounds` rounds."""
    tokenizer, model = untrained(params)
    policies: dict[str, Policy] = {
        "`generate`, turn by turn": Generate(model, tokenizer, params, batched=False),
        "`generate`, one batch a round": Generate(model, tokenizer, params, batched=True),
        "TRL's GRPOTrainer with `rollout_func`": Grpo(model, tokenizer, params),
        "ours, with values and log-probabilities": Ours(model, tokenizer, params),
    }
    turns = {name: 0 for name in policies}

    def play(name: str) -> None:
        batch = rollout(params, policies[name], episodes).play(1)
        # Two rounds are played. The batch has the turns of the first; those of the second wait for the next batch.
        turns[name] = sum(len(trajectory.turns) for trajectory in batch.trajectories) * 2

    seconds = timed({name: lambda name=name: play(name) for name in policies}, rounds)
    speeds = {name: turns[name] / seconds[name].wall for name in policies}
    slowest = next(iter(speeds.values()))
    rows = [
        [name, f"{speed:,.0f}", f"{seconds[name].cpu / turns[name] * 1000:.2f}", f"{speed / slowest:.1f}"]
        for name, speed in speeds.items()
    ]
    scenario = task_of(params, "marooned").game.scenario
    head = (
        f"{episodes} episodes of {scenario}, {params.ppo.rollout.max_new_tokens} new tokens a turn, "
        f"environment and teacher included; medians of {rounds}."
    )
    shown = table(["rollout", "turns/s", "CPU ms a turn", "times the first"], rows)
    return f"{head}\n\n{shown}\n\n{winner(speeds)}"


def untrained(params: Params) -> tuple[Any, Any]:
    """A tokenizer trained on the prompts of one game, and the untrained tiny model."""
    environment = task_of(params, "marooned").make()
    environment.reset(0, "all")
    texts = [message["content"] for prompt in environment.prompts() for message in prompt.messages]
    tokenizer = train_tokenizer(texts, params.base.vocabulary)
    torch.manual_seed(params.seed)
    model: Any = new_model(params.base, tokenizer).eval()
    model.generation_config.eos_token_id = None
    return tokenizer, model


def rollout(params: Params, policy: Policy, episodes: int) -> ContinuingRollout:
    """A rollout of MAROONED with `episodes` parallel episodes, in which the policy plays the crew."""
    ids = count()
    environment = task_of(params, "marooned").make()
    return ContinuingRollout(
        lambda: task_of(params, "marooned").make(),
        lambda: (next(ids), "crew"),
        policy,
        RulesTeacher(environment.rules),
        episodes,
    )


class Generate:
    """Samples with `generate` of transformers, which computes neither values nor log-probabilities."""

    def __init__(self, model: Any, tokenizer: Any, params: Params, batched: bool) -> None:
        self._model, self._tokenizer, self._batched = model, tokenizer, batched
        self._chat = ChatTokenizer(tokenizer)
        self._length = params.ppo.rollout.max_new_tokens

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        rows = [self._chat.prompt(prompt.messages) for prompt in prompts]
        batches = [rows] if self._batched else [[row] for row in rows]
        return [answer for batch in batches for answer in self._draw(batch)]

    def _draw(self, rows: list[list[int]]) -> list[Generation]:
        tokens, mask = pad_left(rows, self._tokenizer.pad_token_id)
        drawn = self._model.generate(
            input_ids=tokens,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=self._length,
            pad_token_id=self._tokenizer.pad_token_id,
        )[:, tokens.shape[1] :].tolist()
        nothing = [0.0] * self._length
        return [
            Generation(self._tokenizer.decode(reply), row, reply, nothing, nothing)
            for row, reply in zip(rows, drawn, strict=True)
        ]


class Grpo:
    """Samples as a `rollout_func` that requests one batch per round from its GRPOTrainer, without vLLM."""

    def __init__(self, model: Any, tokenizer: Any, params: Params) -> None:
        self._tokenizer, self._chat = tokenizer, ChatTokenizer(tokenizer)
        with tempfile.TemporaryDirectory() as folder:
            settings = GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
                temperature=1.0,
                top_k=0,
                max_completion_length=params.ppo.rollout.max_new_tokens,
                per_device_train_batch_size=2,
                num_generations=2,
            )
            self._trainer: Any = GRPOTrainer(
                model,
                lambda completions, **_: [0.0] * len(completions),
                args=settings,
                train_dataset=Dataset.from_dict({"prompt": ["", ""]}),
                processing_class=tokenizer,
            )

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        rows = [self._chat.prompt(prompt.messages) for prompt in prompts]
        replies, _ = self._trainer._generate_single_turn(rows, None, {}, 1)
        nothing = [0.0] * len(rows[0])
        return [
            Generation(self._tokenizer.decode(reply), row, reply, nothing, nothing)
            for row, reply in zip(rows, replies, strict=True)
        ]


class Ours:
    """Samples as PPO does: a model with an adapter, with values and log-probabilities."""

    def __init__(self, model: Any, tokenizer: Any, params: Params) -> None:
        # The adapter goes into the layers of the model, which others sample from as it is.
        self._actor = ActorCritic(new_adapter(copy.deepcopy(model), params.ppo.lora))
        self._tokenizer, self._chat = tokenizer, ChatTokenizer(tokenizer)
        self._rules = SamplingRules(1.0, params.ppo.rollout.max_new_tokens, NO_STOP, tokenizer.pad_token_id)
        self._generator = torch.Generator().manual_seed(params.seed)

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        rows = [self._chat.prompt(prompt.messages) for prompt in prompts]
        samples = sample_replies(self._actor, rows, self._rules, self._generator)
        return [
            Generation(self._tokenizer.decode(sample.tokens), row, sample.tokens, sample.logprobs, sample.values)
            for row, sample in zip(rows, samples, strict=True)
        ]
