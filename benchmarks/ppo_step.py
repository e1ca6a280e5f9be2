"""Compares our PPO step with that of TRL's last release with PPO, on the same model, prompts, sizes and threads.

TRL's critic is a second model; ours is a value head on the policy model. So ours is measured twice: as the pipeline
uses it, and with a fully trained second model as its critic, which is the same work as TRL's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import get_peft_model

from benchmarks.shapes import PAD, Shape
from benchmarks.timing import clocked
from castaway.bases.tiny import train_tokenizer
from castaway.config.params import Params, merged
from castaway.config.ppo import PpoParams
from castaway.metrics.markdown import table
from castaway.models.logprobs import hidden_states_at
from castaway.models.reward import RewardScorer, Scale
from castaway.models.tokens import ChatTokenizer
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.rollout.actor_critic import ActorCritic, Scores, TurnBatch
from castaway.rollout.play import Generation
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import HELD_OUT_START, CurriculumStage, Message, Outcome, Prompt, TextEnvironment
from castaway.tasks.verdict import Attempt, Verdict

ROOT = Path(__file__).parents[1]
PEER = ROOT / ".bench" / "trl-1.12.0"
"""Where `make bench` installs that release."""
NO_STOP: frozenset[int] = frozenset()
"""A stop token that is never sampled, so that all replies have the same length."""
WARM_UP = 2
"""Number of batches before the measured ones."""

Batch = Callable[[], tuple[float, float]]
"""Trains on the next batch, and returns its wall and CPU seconds."""


def step_table(params: Params, shape: Shape, rounds: int) -> str:
    """A Markdown table of median times of `rounds` batches, after `WARM_UP` batches.

    Ours and TRL's alternate, so that other load on the machine affects all of them.
    """
    batches = WARM_UP + rounds
    with theirs(shape, batches) as peer:
        ways: dict[str, Batch] = {
            "TRL 1.12.0 PPO, a second model as critic": peer,
            "ours, a second model as critic": ours(params, shape, batches, separate=True),
            "ours, as it trains: value head on the policy's trunk": ours(params, shape, batches),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(batches):
            for name, way in ways.items():
                found[name].append(way())
    measured = {name: rows[WARM_UP:] for name, rows in found.items()}
    wall, cpu = ({name: median(row[kind] for row in rows) for name, rows in measured.items()} for kind in (0, 1))
    slowest = next(iter(wall))
    rows = [[name, f"{wall[name]:.2f}", f"{cpu[name]:.2f}", f"{wall[slowest] / wall[name]:.2f}"] for name in found]
    head = (
        f"{shape.turns} turns of {shape.prompt} + {shape.reply} tokens, {shape.epochs} epochs of one minibatch, a "
        f"Llama of width {shape.hidden} and {shape.layers} layers under LoRA, a reward model of the same size, "
        f"{shape.threads} thread(s); medians of {rounds}, in turns."
    )
    return f"{head}\n\n{table(['PPO step', 'seconds', 'CPU seconds', 'times the first'], rows)}"


@contextmanager
def theirs(shape: Shape, batches: int) -> Iterator[Batch]:
    """Context with TRL's trainer, which runs in its own process.

    Raises:
        RuntimeError: that process failed.
    """
    path = os.pathsep.join([str(PEER), str(ROOT)])
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peer_trl", json.dumps(shape.fields()), str(batches)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "TRL_EXPERIMENTAL_SILENCE": "1"},
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
            raise RuntimeError(f"TRL's PPO failed: {log.read()[-2000:]}")

        yield batch


def ours(params: Params, shape: Shape, batches: int, separate: bool = False) -> Batch:
    """Our trainer; `separate` makes its critic a second model."""
    trainer = our_trainer(params, shape, batches, separate)
    return lambda: clocked(trainer.step)


def our_trainer(params: Params, shape: Shape, batches: int, separate: bool = False) -> PpoTrainer:
    """Our PPO trainer on one-turn episodes, whose prompts are given as tokens."""
    torch.set_num_threads(shape.threads)
    policy = get_peft_model(shape.policy(), shape.lora())
    actor = WithCritic(policy, shape.scalar_model(2)) if separate else ActorCritic(policy)
    changes = {
        "minibatch_turns": shape.turns,
        "epochs": shape.epochs,
        "steps": batches,
        "rollout": {"episodes_per_step": shape.turns, "temperature": 1.0, "max_new_tokens": shape.reply},
        "corrections": {"sft_interval": 10**6},  # no SFT passes: TRL has none
    }
    settings = PpoParams.model_validate(merged(params.ppo, changes))
    prompts = iter(shape.prompts(batches))
    scorer = TokenScorer(shape.scalar_model(1))
    return PpoTrainer(
        actor,
        ChatTokenizer(train_tokenizer(["nothing"], 300)),
        lambda: OneTurn(prompts),
        AnythingGoes(),
        scorer,
        settings,
        seed=0,
        source=EpisodeSource([CurriculumStage("all", range(HELD_OUT_START), ("crew",))], settings.replay, 0, "crew"),
        sampler=TokenPolicy(actor, shape, torch.Generator().manual_seed(0)),
    )


class OneTurn(TextEnvironment):
    """An environment with one turn: it shows the next prompt of a list, as token numbers, and gives a reward of 1."""

    name, agents, seats, idle = "one turn", ("student",), ("crew",), "0"
    rules: Any = None

    def __init__(self, prompts: Iterator[list[int]]) -> None:
        self._prompts = prompts

    def reset(self, task_id: int, seat: str) -> None:
        self._row, self._done = next(self._prompts), False

    def prompts(self) -> tuple[Prompt, ...]:
        if self._done:
            return ()
        messages = ({"role": "user", "content": " ".join(map(str, self._row))},)
        return (Prompt("student", "student", messages, self._row),)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        self._done = True
        return {"student": 1.0}

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
    """A policy that samples exactly `shape.reply` tokens for prompts that are given as tokens."""

    def __init__(self, actor: ActorCritic, shape: Shape, generator: torch.Generator) -> None:
        self._actor, self._generator = actor, generator
        self._rules = SamplingRules(1.0, shape.reply, NO_STOP, PAD)

    def refresh(self) -> None:
        """Do nothing: the weights are the actor's own."""

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        rows = [prompt.observation for prompt in prompts]
        samples = sample_replies(self._actor, rows, self._rules, self._generator)
        values = [sample.values for sample in samples]
        if isinstance(self._actor, WithCritic):
            pairs = [(row, sample.tokens) for row, sample in zip(rows, samples, strict=True)]
            with torch.inference_mode():
                values = self._actor.critic_values(self._actor.batch(pairs)).tolist()
        return [
            Generation(" ".join(map(str, sample.tokens)), row, sample.tokens, sample.logprobs, value)
            for row, sample, value in zip(rows, samples, values, strict=True)
        ]


class TokenScorer:
    """Our reward model for messages whose text is token numbers."""

    def __init__(self, model: Any) -> None:
        tokenizer = ChatTokenizer(train_tokenizer(["nothing"], 300))
        self._scorer = RewardScorer(model.model, model.score.weight.detach(), tokenizer, Scale(0.0, 1.0))

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        texts = [f"{messages[0]['content']} {text}" for messages, text in situations]
        return self._scorer.raw([[int(word) for word in text.split()] for text in texts])


class WithCritic(ActorCritic):
    """An actor whose critic is a second model with all weights trained."""

    def __init__(self, policy: Any, critic: Any) -> None:
        super().__init__(policy)
        self.value_head = critic

    def values(self, hidden: torch.Tensor) -> torch.Tensor:
        """Zeros: while tokens are sampled no values are computed, because one pass afterwards is cheaper."""
        return hidden.new_zeros(hidden.shape[:-1])

    def critic_values(self, batch: TurnBatch) -> torch.Tensor:
        """Values of shape (turns, reply tokens)."""
        critic: Any = self.value_head
        hidden = hidden_states_at(critic.model, batch.rows.lines, batch.rows.columns, **batch.rows.inputs(critic))
        values: torch.Tensor = critic.score(hidden).squeeze(-1)
        return values

    def score(
        self, batch: TurnBatch, temperature: float, *, value_head_only: bool = False, learn_entropy: bool = False
    ) -> Scores:
        scores = super().score(batch, temperature, learn_entropy=learn_entropy)
        # The pass of the reference policy needs no values; TRL computes none there either.
        values = self.critic_values(batch) if torch.is_grad_enabled() else scores.values
        return Scores(scores.logprobs, scores.entropy, values * batch.mask)
