"""Trains a small student for some steps, alone or started by torchrun, and saves its weights: a program for tests.

python -m tests.castaway.rl.training FILE [sharded]

Or it trains in two processes of which the second one loses its teacher:

python -m tests.castaway.rl.training outage [ahead]
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from castaway.rl.ppo import PpoTrainer
from castaway.rl.ranks import Ranks, process_group
from castaway.rl.sharding import shard
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.verdict import Attempt, TeacherOutage, Verdict
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads, ppo_params, source_of, stirred, student

REPLIES = ["REASONING: a\nACTION: LEFT", "REASONING: a\nACTION: RIGHT", "ACTION: RIGHT", "REASONING: a\nACTION: "]


class Numbered(Crossroads):
    """Crossroads whose prompts tell which episode it is."""

    def prompts(self) -> tuple[Prompt, ...]:
        """The same, with the episode in the text."""
        return tuple(
            Prompt(
                p.agent, p.role, ({**p.messages[0], "content": f"{p.messages[0]['content']} {self.task_id % 97}"},), p
            )
            for p in super().prompts()
        )


class Scripted:
    """Says what the prompt decides, with the actor's own log-probabilities and values: nothing is drawn."""

    def __init__(self, actor: ActorCritic, tokenizer: Any) -> None:
        self._actor, self._tokenizer = actor, tokenizer

    def refresh(self) -> None:
        """The weights are the actor's own."""

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        return [self._answer(prompt.messages) for prompt in prompts]

    def _answer(self, messages: Sequence[Message]) -> Generation:
        text = REPLIES[sum(map(ord, messages[0]["content"])) % len(REPLIES)]
        prompt, reply = self._tokenizer.prompt(messages), self._tokenizer.reply(text)
        with torch.no_grad():
            scores = self._actor.score(self._actor.batch([(prompt, reply)]), 1.0)
        return Generation(text, prompt, reply, scores.logprobs[0].tolist(), scores.values[0].tolist())


class LengthScorer:
    """A reward model that likes long answers."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Letters, more or less."""
        return [len(text) / 20 - 1 for _, text in situations]


def train(place: Path, changes: dict[str, Any], *, checkpointing: bool, sharded: bool, steps: int = 3) -> None:
    """Some steps; the first process saves the weights."""
    torch.set_num_threads(1)
    actor, tokenizer = student()
    stirred(actor)
    if checkpointing:
        actor.causal.activation_checkpointing_enable({"use_reentrant": False})
    whole = sum(weight.numel() for weight in actor.causal.get_decoder().layers.parameters())
    pace = shard(actor.causal, "cpu") if sharded else None
    settings: dict[str, Any] = {
        "episodes_per_step": 5, "minibatch_turns": 4, "steps": 10, "sft_interval": 2,
        "sft_minimum": 1, "sft_learning_rate": 1e-3, "learning_rate": 1e-3, "penalty_weight": 1.0, "reward_scale": 0.3,
    }  # fmt: skip
    params = ppo_params(**{**settings, **changes})
    teacher, sampler = RulesTeacher(AnyText()), Scripted(actor, tokenizer)
    trainer = PpoTrainer(actor, tokenizer, Numbered, teacher, LengthScorer(), params, 3, source_of(3), sampler)
    if pace:
        trainer.ranks.keep(pace)
    history = [trainer.step() for _ in range(steps)]
    sources = trainer.ranks.gather(trainer.rollouts.source.state())
    assert all(state == sources[0] for state in sources), "the processes draw from unlike sources"
    if trainer.ranks.rank == 0:
        weights = {name: weight.detach() for name, weight in actor.named_parameters() if weight.requires_grad}
        layers = actor.causal.get_decoder().layers
        held = sum(getattr(weight, "_local_tensor", weight).numel() for weight in layers.parameters())
        corrections = len(trainer.learner.corrections)
        torch.save({"weights": weights, "history": history, "corrections": corrections, "held": held / whole}, place)


def main(place: Path, sharded: bool) -> None:
    """Train with a plain policy loss, with all that an update can do, and with hidden states computed again."""
    # Adam divides by the size of a gradient: where that is all but zero, its own epsilon would make rounding a step.
    torch.optim.AdamW = functools.partial(torch.optim.AdamW, eps=1e-4)  # type: ignore[assignment,misc]
    kl = {"penalty_in": "loss", "estimator": "k3"}
    rich = {"critic_warmup": 1, "kl": kl, "importance_cap": 2.0, "normalise_by": "batch"}
    with process_group():  # one for all: a second one would find what the first left in torchrun's store
        train(place.with_suffix(".plain"), {}, checkpointing=False, sharded=sharded)
        train(place.with_suffix(".rich"), rich, checkpointing=False, sharded=sharded)
        train(place.with_suffix(".again"), {}, checkpointing=True, sharded=sharded)
        train(place.with_suffix(".turns"), {"turns_per_step": 9}, checkpointing=False, sharded=sharded)


class Lost(RulesTeacher):
    """Judges a few rounds, until the connection is gone."""

    rounds = 12

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        self.rounds -= 1
        if self.rounds < 0:
            raise TeacherOutage("nobody answers")
        return super().judge(attempts)


def lose_the_teacher(ahead: bool) -> None:
    """Train until all processes stop, and say in which step they did."""
    with process_group():
        actor, tokenizer = student()
        params = ppo_params(episodes_per_step=4, steps=10, minibatch_turns=4, async_rollout=ahead)
        teacher = Lost(AnyText()) if Ranks().rank == 1 else RulesTeacher(AnyText())
        trainer = PpoTrainer(actor, tokenizer, Crossroads, teacher, LengthScorer(), params, 3, source_of(3))
        try:
            while trainer.step_number < params.steps:
                trainer.step()
        except TeacherOutage as outage:
            print(f"{trainer.ranks.rank} stopped in step {trainer.step_number}: {outage}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "outage":
        lose_the_teacher(sys.argv[2:] == ["ahead"])
    else:
        main(Path(sys.argv[1]), sys.argv[2:] == ["sharded"])
