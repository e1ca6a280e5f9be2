"""Compares a PPO step of ours with one of TRL's GRPOTrainer and RLOOTrainer: same model, prompts, tokens and groups.

One step is a rollout, the log-probabilities of the reference policy, and one update with all turns. PPO with a critic
is measured beside them: TRL has no such trainer any more. TRL's asynchronous GRPO runs on GPUs alone (NCCL, kernels of
FlashAttention), and so does its vLLM backend.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import get_peft_model

from benchmarks.shapes import PAD, Shape, gain
from benchmarks.timing import clocked, winner
from castaway.bases.tiny import train_tokenizer
from castaway.config.params import Params, merged
from castaway.config.ppo import PpoParams
from castaway.metrics.markdown import table
from castaway.models.tokens import ChatTokenizer
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import HELD_OUT_START, CurriculumStage, Outcome, Prompt, TextEnvironment
from castaway.tasks.verdict import Attempt, Verdict

ROOT = Path(__file__).parents[1]
NO_STOP: frozenset[int] = frozenset()
"""A stop token that is never sampled, so that all replies have the same length."""
WARM_UP = 1
"""Number of batches before the measured ones."""

Batch = Callable[[], tuple[float, float]]
"""Trains on the next batch, and returns its wall and CPU seconds."""


def step_table(params: Params, shape: Shape, rounds: int) -> str:
    """A Markdown table of median times of `rounds` batches; ours and TRL's alternate, so that load affects all."""
    batches = WARM_UP + rounds
    with ExitStack() as stack:
        ways: dict[str, Batch] = {}
        for method in ("grpo", "rloo"):
            ways[f"TRL's {method.upper()}Trainer"] = stack.enter_context(theirs(method, shape, batches))
            ways[f"ours, `{method}`"] = ours(params, shape, batches, method)
        ways["ours, `gae`: PPO with a critic"] = ours(params, shape, batches, "gae")
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(batches):
            for name, way in ways.items():
                found[name].append(way())
    wall, cpu = ({name: median(row[kind] for row in rows[WARM_UP:]) for name, rows in found.items()} for kind in (0, 1))
    slowest, tokens = next(iter(wall)), shape.turns * (shape.prompt + shape.reply)
    rows = [
        [
            name,
            f"{wall[name]:.2f}",
            f"{cpu[name]:.2f}",
            f"{tokens / wall[name]:,.0f}",
            f"{wall[slowest] / wall[name]:.2f}",
        ]
        for name in found
    ]
    head = (
        f"{shape.turns} turns of {shape.prompt} + {shape.reply} tokens in groups of {shape.group}, a Llama of width "
        f"{shape.hidden} and {shape.layers} layers under LoRA, {shape.threads} thread(s); medians of {rounds}."
    )
    shown = table(["step", "seconds", "CPU seconds", "tokens/s", "times the first"], rows)
    # PPO with a critic does more than the others.
    compared = winner({name: 1 / seconds for name, seconds in wall.items() if "critic" not in name})
    return f"{head}\n\n{shown}\n\n{compared}"


@contextmanager
def theirs(method: str, shape: Shape, batches: int) -> Iterator[Batch]:
    """Context with TRL's trainer, which runs in its own process.

    Raises:
        RuntimeError: that process failed.
    """
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peer_trl", method, json.dumps(shape.fields()), str(batches)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin and process.stdout
        requests, answers = process.stdin, process.stdout

        def batch() -> tuple[float, float]:
            requests.write("\n")
            requests.flush()
            for line in answers:
                if line.startswith("["):  # TRL's trainer prints other lines too
                    wall, cpu = json.loads(line)
                    return wall, cpu
            log.seek(0)
            raise RuntimeError(f"TRL's {method} failed: {log.read()[-2000:]}")

        yield batch


def ours(params: Params, shape: Shape, batches: int, estimator: str) -> Batch:
    """Our trainer with an estimator of advantages."""
    torch.set_num_threads(shape.threads)
    tokens = ChatTokenizer(train_tokenizer(["nothing"], 300))
    rows = [tokens.piece(prompt) for prompt in shape.prompts(batches)]
    group = 1 if estimator == "gae" else shape.group
    actor = ActorCritic(get_peft_model(shape.policy(), shape.lora()))
    play = {"episodes_per_step": shape.turns, "max_new_tokens": shape.reply, "temperature": 1.0, "group_size": group}
    changes = {"steps": batches, "rollout": play, "advantage": {"estimator": estimator}}
    trainer = trainer_of_turns(actor, params.ppo, rows, changes)
    return lambda: clocked(trainer.step)


def trainer_of_turns(
    actor: ActorCritic, ppo: PpoParams, rows: Sequence[list[int]], changes: dict[str, Any]
) -> PpoTrainer:
    """Our PPO trainer on one-turn episodes whose prompts are given as tokens: one epoch of one minibatch a step.

    Args:
        actor: is trained.
        ppo: its settings.
        rows: the prompts, which are used one after another, and again from the first one.
        changes: of the settings.
    """
    own = {
        "epochs": 1,
        "minibatch_turns": changes["rollout"]["episodes_per_step"],
        "reward_model_weight": 0.0,
        "corrections": {"sft_interval": 10**6},  # no SFT passes
    }
    settings = PpoParams.model_validate(merged(ppo, {**own, **changes}))
    known: dict[int, list[int]] = {}
    left = cycle(rows)
    return PpoTrainer(
        actor,
        ChatTokenizer(train_tokenizer(["nothing"], 300)),
        lambda: OneTurn(known, left),
        AnythingGoes(),
        None,  # type: ignore[arg-type]  # never asked, at a weight of 0
        settings,
        seed=0,
        source=EpisodeSource([CurriculumStage("all", range(HELD_OUT_START), ("crew",))], settings.replay, 0, "crew"),
        sampler=TokenPolicy(actor, settings, torch.Generator().manual_seed(0)),
    )


class OneTurn(TextEnvironment):
    """An environment with one turn: an id shows the next prompt of a list, as token numbers, each time the same."""

    name, agents, seats, idle = "one turn", ("student",), ("crew",), "0"
    rules: Any = None

    def __init__(self, known: dict[int, list[int]], left: Iterator[list[int]]) -> None:
        self._known, self._left = known, left

    def reset(self, task_id: int, seat: str) -> None:
        if task_id not in self._known:
            self._known[task_id] = next(self._left)
        self._row, self._done = self._known[task_id], False

    def prompts(self) -> tuple[Prompt, ...]:
        if self._done:
            return ()
        return (Prompt("student", "student", ({"role": "user", "content": "tokens"},), self._row),)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        self._done = True
        return {"student": gain(actions["student"])}

    @property
    def done(self) -> bool:
        return self._done

    def outcome(self) -> Outcome:
        return Outcome(True, "asked and answered")

    def snapshot(self) -> dict[str, Any]:
        return {}


class AnythingGoes:
    """A teacher that accepts every reply."""

    counts: Mapping[str, int] = {}

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        return [Verdict(True, attempt.text, 0.0, "", "", "none") for attempt in attempts]


class TokenPolicy:
    """A policy that samples replies of one length for prompts that are given as tokens."""

    def __init__(self, actor: ActorCritic, ppo: PpoParams, generator: torch.Generator) -> None:
        self._actor, self._generator = actor, generator
        play = ppo.rollout
        self._rules = SamplingRules(play.temperature, play.max_new_tokens, NO_STOP, PAD, play.tokens_per_pass)

    def refresh(self) -> None:
        """Do nothing: the weights are the actor's own."""

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        rows = [prompt.observation for prompt in prompts]
        samples = sample_replies(self._actor, rows, self._rules, self._generator)
        return [
            Generation(" ".join(map(str, sample.tokens)), row, sample.tokens, sample.logprobs, sample.values)
            for row, sample in zip(rows, samples, strict=True)
        ]
