"""PPO over the turns of many agents, with a teacher at its side.

One step:

1. Rollout: the policy plays whole episodes on training ids; the teacher judges every reply.
2. Scores: the reference policy (adapter off) and the reward model read every turn once.
3. Advantages: environment, penalty, reward model and KL as token rewards; dual-discount GAE.
4. Update: a few epochs of minibatches with the clipped losses.
5. Corrections: what was not legal is kept; now and then an SFT pass is made on the fresh ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

import torch
from transformers import PreTrainedTokenizerBase

from castaway.envs.base import HELD_OUT_START, Message, TextEnvironment
from castaway.params import PpoParams
from castaway.rl.actor_critic import ActorCritic, Scores, TurnBatch
from castaway.rl.corrections import Correction, correct, correction_tokens
from castaway.rl.losses import approximate_kl, clipped_policy_loss, clipped_value_loss, masked_mean
from castaway.rl.rewards import Lesson, make_lessons
from castaway.rl.rollout import play_episodes
from castaway.rl.speaker import ModelSpeaker
from castaway.rl.trajectory import Episode, Trajectory
from castaway.teacher.base import Teacher


class Scorer(Protocol):
    """A reward model."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Standardised scores of (messages, answer)."""
        ...


class PpoTrainer:
    """Everything that a training run changes, and the step that changes it."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: PreTrainedTokenizerBase,
        make: Callable[[], TextEnvironment],
        teacher: Teacher,
        scorer: Scorer,
        params: PpoParams,
        seed: int,
    ) -> None:
        """Start at step 0."""
        self.actor = actor
        self.params = params
        self.step_number = 0
        self.tasks = Random(seed)
        self.generator = torch.Generator(device=next(actor.parameters()).device).manual_seed(seed)
        self.corrections: list[Correction] = []
        self.fresh: list[Correction] = []
        """Corrections since the last SFT pass."""
        self._tokenizer = tokenizer
        self._make, self._teacher, self._scorer = make, teacher, scorer
        self._speaker = ModelSpeaker(actor, tokenizer, params.temperature, params.max_new_tokens, self.generator)
        adapter = [weight for weight in actor.policy.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": adapter, "lr": params.learning_rate},
                {"params": list(actor.value_head.parameters()), "lr": params.value_learning_rate},
            ],
            weight_decay=0.0,
        )

    def step(self) -> dict[str, float]:
        """One step; returns its metrics."""
        episodes = self._rollout()
        trajectories = [trajectory for episode in episodes for trajectory in episode.trajectories]
        lessons, scores = self._lessons(trajectories)
        self._anneal()
        losses = self._update(lessons)
        corrected = self._collect(trajectories)
        self.step_number += 1
        if self.step_number % self.params.sft_interval == 0 and len(self.fresh) >= self.params.sft_minimum:
            losses["sft_loss"] = self._sft_pass()
        return {**_summary(episodes, lessons, scores), **losses, "corrections": float(corrected)}

    def state(self) -> dict[str, Any]:
        """All that a run needs to go on as if it had never stopped."""
        return {
            "step_number": self.step_number,
            "trained": {name: w.detach() for name, w in self.actor.named_parameters() if w.requires_grad},
            "optimizer": self.optimizer.state_dict(),
            "tasks": self.tasks.getstate(),
            "generator": self.generator.get_state(),
            "corrections": self.corrections,
            "fresh": self.fresh,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.step_number = state["step_number"]
        self.actor.load_state_dict(state["trained"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.tasks.setstate(state["tasks"])
        self.generator.set_state(state["generator"])
        self.corrections, self.fresh = state["corrections"], state["fresh"]

    # 1. Rollout ----------------------------------------------------------------------------------------------------

    def _rollout(self) -> list[Episode]:
        count = self.params.episodes_per_step
        traitors = round(count * self.params.traitor_share)
        tasks = [
            (self.tasks.randrange(HELD_OUT_START), "traitor" if number < traitors else "crew")
            for number in range(count)
        ]
        return play_episodes(self._make, tasks, self._speaker, self._teacher, parallel=count)

    # 2. Scores, 3. Advantages --------------------------------------------------------------------------------------

    def _lessons(self, trajectories: Sequence[Trajectory]) -> tuple[list[Lesson], list[float]]:
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        pairs = [(turn.prompt_tokens, turn.reply_tokens) for turn in turns]
        with torch.inference_mode(), self.actor.reference():
            reference = [row for batch in self._batches(pairs) for row in _rows(self._score(batch).logprobs, batch)]
        scores = [0.0] * len(turns)
        if self.params.reward_model_weight:
            scores = self._scorer.score([(turn.messages, turn.text) for turn in turns])
            # A replaced action is the teacher's: the student's words earn nothing of it.
            scores = [score if turn.valid else 0.0 for turn, score in zip(turns, scores, strict=True)]
        references, model_scores, start = [], [], 0
        for trajectory in trajectories:
            end = start + len(trajectory.turns)
            references.append(reference[start:end])
            model_scores.append(scores[start:end])
            start = end
        return make_lessons(trajectories, references, model_scores, self.params), scores

    def _batches(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[TurnBatch]:
        size = self.params.minibatch_turns
        return [self._batch(pairs[start : start + size]) for start in range(0, len(pairs), size)]

    def _batch(self, pairs: Sequence[tuple[list[int], list[int]]]) -> TurnBatch:
        return TurnBatch.of(list(pairs), self.generator.device)

    def _score(self, batch: TurnBatch) -> Scores:
        return self.actor.score(batch, self.params.temperature)

    # 4. Update -----------------------------------------------------------------------------------------------------

    def _anneal(self) -> None:
        """Learning rates fall in a straight line to 0 at the last step (Huang et al. 2022, detail 4)."""
        left = 1 - self.step_number / self.params.steps
        rates = (self.params.learning_rate, self.params.value_learning_rate)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * left

    def _update(self, lessons: list[Lesson]) -> dict[str, float]:
        totals: dict[str, float] = {}
        count = 0
        for _ in range(self.params.epochs):
            order = torch.randperm(len(lessons), generator=self.generator, device=self.generator.device).tolist()
            for start in range(0, len(order), self.params.minibatch_turns):
                chosen = [lessons[index] for index in order[start : start + self.params.minibatch_turns]]
                for name, value in self._minibatch(chosen).items():
                    totals[name] = totals.get(name, 0.0) + value
                count += 1
        return {name: value / count for name, value in totals.items()}

    def _minibatch(self, lessons: list[Lesson]) -> dict[str, float]:
        params = self.params
        batch = self._batch([(lesson.turn.prompt_tokens, lesson.turn.reply_tokens) for lesson in lessons])
        old = _padded([lesson.turn.logprobs for lesson in lessons], batch)
        old_values = _padded([lesson.turn.values for lesson in lessons], batch)
        advantages = _padded([lesson.advantages for lesson in lessons], batch)
        returns = _padded([lesson.returns for lesson in lessons], batch)
        scores = self._score(batch)
        policy_loss, clipped = clipped_policy_loss(scores.logprobs, old, advantages, batch.mask, params.clip_range)
        value_loss = clipped_value_loss(scores.values, old_values, returns, batch.mask, params.value_clip_range)
        entropy = masked_mean(scores.entropy, batch.mask)
        loss = policy_loss + params.value_coefficient * value_loss - params.entropy_coefficient * entropy
        self.optimizer.zero_grad()
        loss.backward()
        trained = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(trained, params.max_gradient_norm)
        self.optimizer.step()
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "clip_fraction": clipped.item(),
            "update_kl": approximate_kl(old, scores.logprobs.detach(), batch.mask).item(),
            "gradient_norm": norm.item(),
        }

    # 5. Corrections ------------------------------------------------------------------------------------------------

    def _collect(self, trajectories: Sequence[Trajectory]) -> int:
        found = [correct(turn) for trajectory in trajectories for turn in trajectory.turns if not turn.valid]
        self.corrections += found
        self.fresh += found
        return len(found)

    def _sft_pass(self) -> float:
        """One pass of supervised learning over the fresh corrections."""
        rows = [correction_tokens(self._tokenizer, correction) for correction in self.fresh]
        self.fresh = []
        adapter = [weight for weight in self.actor.policy.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(adapter, lr=self.params.sft_learning_rate, weight_decay=0.0)
        total = 0.0
        size = self.params.minibatch_turns
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        for some in batches:
            batch = self._batch([(prompt, target) for prompt, target, _ in some])
            learned = _padded([[float(flag) for flag in flags] for _, _, flags in some], batch)
            loss = -masked_mean(self.actor.score(batch, temperature=1.0).logprobs, learned)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(adapter, self.params.max_gradient_norm)
            optimizer.step()
            total += loss.item()
        return total / len(batches)


def _rows(values: torch.Tensor, batch: TurnBatch) -> list[list[float]]:
    """The unpadded rows of a (turns, longest reply) tensor."""
    lengths = batch.mask.sum(1).int().tolist()
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]


def _padded(rows: Sequence[Sequence[float]], batch: TurnBatch) -> torch.Tensor:
    """Rows of floats in the shape of the batch's replies, 0 where padded."""
    result = torch.zeros(batch.mask.shape)
    for number, row in enumerate(rows):
        result[number, : len(row)] = torch.tensor(row)
    return result.to(batch.mask.device)


def _summary(episodes: Sequence[Episode], lessons: Sequence[Lesson], scores: Sequence[float]) -> dict[str, float]:
    """What the rollout looked like."""
    turns = [lesson.turn for lesson in lessons]
    tokens = [(own, ref) for lesson in lessons for own, ref in zip(lesson.turn.logprobs, lesson.reference, strict=True)]
    crew = [episode for episode in episodes if episode.seat == "crew"]
    returns = [sum(turn.reward for turn in t.turns) for episode in episodes for t in episode.trajectories]
    return {
        "success_rate": sum(episode.outcome.success for episode in crew) / max(1, len(crew)),
        "invalid_rate": sum(not turn.valid for turn in turns) / len(turns),
        "penalty": sum(turn.penalty for turn in turns) / len(turns),
        "mean_return": sum(returns) / len(returns),
        "reward_model": sum(scores) / len(scores),
        "reference_kl": sum(own - ref for own, ref in tokens) / len(tokens),
        "reply_tokens": len(tokens) / len(turns),
        "turns": float(len(turns)),
    }
