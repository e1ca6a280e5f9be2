"""The update of PPO: epochs of minibatches over the samples of one rollout, and the SFT pass on corrections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import torch

from castaway.config.ppo import PpoParams
from castaway.models.folded import folded
from castaway.models.rows import in_passes
from castaway.rl.actor_critic import ActorCritic, Scores, TurnBatch
from castaway.rl.kl import kl_estimate
from castaway.rl.losses import clipped_policy_loss, clipped_value_loss, masked_mean, sequence_log_ratio
from castaway.rl.ranks import Ranks
from castaway.rl.rewards import Sample

Row = TypeVar("Row")
KL_TOLERANCE = 1.5
"""An update ends early when its KL exceeds `target_kl` times this (as in Stable-Baselines3)."""

TaughtRow = tuple[list[int], list[int], list[bool]]
"""Prompt tokens, the tokens to be written, and which of those are learned."""


class PolicyUpdate:
    """The optimiser, and its two kinds of update: PPO on samples, and supervised learning on corrections."""

    def __init__(self, actor: ActorCritic, params: PpoParams, generator: torch.Generator, ranks: Ranks) -> None:
        """Train the actor's adapter and value head; minibatches are drawn from `generator`."""
        self._actor, self._params, self._generator, self._ranks = actor, params, generator, ranks
        self._adapter = [weight for weight in actor.policy.parameters() if weight.requires_grad]
        self._value_head = list(actor.value_head.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self._adapter, "lr": params.learning_rate},
                {"params": self._value_head, "lr": params.value_learning_rate},
            ],
            weight_decay=0.0,
            fused=True,
        )

    def update(
        self,
        samples: Sequence[Sample],
        numbers: Sequence[int],
        step: int,
        kl_coefficient: float,
    ) -> dict[str, float]:
        """A few passes over the samples of step number `step`, from 0.

        Args:
            samples: this process's, of one rollout.
            numbers: one for each sample; over all processes they go from 0 without gaps.
            step: decides the learning rates, and whether the critic is still warming up.
            kl_coefficient: of the KL penalty inside the loss; 0 if it is not there.

        Returns:
            Means over the minibatches: losses, the entropy in nats, the share of clipped tokens, the norm of the
            gradient before it was clipped, and `update_kl`, the KL in nats per token from the policy before the update.
        """
        self._anneal(step)
        warming_up = step < self._params.critic_warmup
        mine = dict(zip(numbers, samples, strict=True))
        everything = sum(self._ranks.gather(len(samples)))
        totals: dict[str, float] = {}
        count = 0
        for chosen in self._minibatches(everything):
            values = self._minibatch([mine[number] for number in chosen if number in mine], kl_coefficient, warming_up)
            for name, value in values.items():
                totals[name] = totals.get(name, 0.0) + value
            if self._too_far(values):
                break
            count += 1
        # The minibatch that went too far is among the means, but made no step.
        read = count + self._too_far(values)
        return {**{name: value / read for name, value in totals.items()}, "minibatches": float(count)}

    def _too_far(self, values: Mapping[str, float]) -> bool:
        """Whether the policy has moved so far in this update that no further step is made."""
        target = self._params.target_kl
        return target is not None and values["update_kl"] > KL_TOLERANCE * target

    def imitate(self, rows: Sequence[TaughtRow]) -> float:
        """One pass of supervised learning over rows that all processes know; returns the mean loss."""
        optimizer = torch.optim.AdamW(self._adapter, lr=self._params.sft_learning_rate, weight_decay=0.0, fused=True)
        size, losses = self._params.minibatch_turns, []
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            mine = self._ranks.share(some)
            learned = sum(sum(flags) for _, _, flags in some)
            passes = self._in_passes(mine, [[*prompt, *target] for prompt, target, _ in mine])
            parts = (self._imitation_loss(part) * (sum(sum(row[2]) for row in part) / learned) for part in passes)
            _, loss = self._gradients(optimizer, parts, self._adapter)
            optimizer.step()
            losses.append(self._ranks.sum(loss).item())
        return sum(losses) / len(losses)

    def _in_passes(self, rows: Sequence[Row], tokens: Sequence[list[int]]) -> list[list[Row]]:
        """Rows in groups that one forward and backward pass can hold; their gradients add up."""
        groups = in_passes(tokens, self._params.tokens_per_pass)
        return [[rows[index] for index in group] for group in groups]

    def _imitation_loss(self, rows: Sequence[TaughtRow]) -> torch.Tensor:
        batch = self._actor.batch([(prompt, target) for prompt, target, _ in rows])
        learned = padded([[float(flag) for flag in flags] for _, _, flags in rows], batch)
        return -masked_mean(self._actor.score(batch, temperature=1.0).logprobs, learned)

    def _gradients(
        self,
        optimizer: torch.optim.Optimizer,
        losses: Iterable[torch.Tensor],
        weights: Sequence[torch.nn.Parameter],
    ) -> tuple[float, torch.Tensor]:
        """Set the gradients to those of all losses and processes, clipped; returns their norm before, and the loss.

        The losses may be a generator: then no more than one of their graphs is in memory at a time.
        """
        optimizer.zero_grad()
        total = torch.zeros((), device=self._generator.device)
        for loss in losses:
            loss.backward()
            total += loss.detach()
        self._ranks.sum_gradients(weights)
        norm = torch.nn.utils.clip_grad_norm_(weights, self._params.max_gradient_norm)
        return norm.item(), total

    def score_all(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[list[float], list[float]]]:
        """For each (prompt tokens, reply tokens): log-probabilities in nats and values of the reply's tokens.

        They are of the actor as it is, without gradients.
        """
        found: dict[int, tuple[list[float], list[float]]] = {}
        with torch.inference_mode(), folded(self._actor.policy):
            rows = [[*prompt, *reply] for prompt, reply in pairs]
            for group in in_passes(rows, self._params.tokens_per_pass):
                batch = self._actor.batch([pairs[index] for index in group])
                scores = self._actor.score(batch, self._params.temperature)
                both = zip(unpadded(scores.logprobs, batch), unpadded(scores.values, batch), strict=True)
                found.update(zip(group, both, strict=True))
        return [found[index] for index in range(len(pairs))]

    def _anneal(self, step: int) -> None:
        """Learning rates fall linearly to 0 after the last step (Huang et al. 2022, detail 4)."""
        left = 1 - step / self._params.steps
        rates = (self._params.learning_rate, self._params.value_learning_rate)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * left

    def _minibatches(self, count: int) -> Iterator[list[int]]:
        """The numbers of all samples in a new order, once an epoch; the same for all processes."""
        size = self._params.minibatch_turns
        for _ in range(self._params.epochs):
            drawn = torch.randperm(count, generator=self._generator, device=self._generator.device).tolist()
            order = self._ranks.first(drawn)
            for start in range(0, len(order), size):
                yield order[start : start + size]

    def _minibatch(self, samples: list[Sample], kl_coefficient: float, warming_up: bool) -> dict[str, float]:
        """One step from this process's samples of a minibatch, which may be none of them."""
        everything = sum(self._ranks.gather(_tokens(samples)))
        passes: list[tuple[float, dict[str, float]]] = []

        def losses() -> Iterator[torch.Tensor]:
            rows = [[*sample.turn.prompt_tokens, *sample.turn.reply_tokens] for sample in samples]
            for part in self._in_passes(samples, rows):
                loss, values = self._pass(part, kl_coefficient, warming_up)
                share = _tokens(part) / everything
                passes.append((share, values))
                yield loss * share

        learning = self._value_head if warming_up else [*self._adapter, *self._value_head]
        norm, _ = self._gradients(self.optimizer, losses(), learning)
        mine = sum(share for share, _ in passes)
        names = passes[0][1] if passes else ()
        means = {name: sum(share * values[name] for share, values in passes) / mine for name in names}
        found = {**self._ranks.mean(means, mine), "gradient_norm": norm}
        if not self._too_far(found):
            self.optimizer.step()
        return found

    def _pass(
        self, samples: list[Sample], kl_coefficient: float, warming_up: bool
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The mean loss over the tokens of some samples, and figures of the same kind."""
        batch = self._actor.batch([(sample.turn.prompt_tokens, sample.turn.reply_tokens) for sample in samples])
        scores = self._actor.score(
            batch,
            self._params.temperature,
            value_head_only=warming_up,
            learn_entropy=self._params.entropy_coefficient > 0,
        )
        old = padded([sample.old_logprobs for sample in samples], batch)
        loss, values = self._loss(samples, batch, scores, old, kl_coefficient, warming_up)
        update_kl = masked_mean(kl_estimate(old, scores.logprobs.detach(), "k3"), batch.mask)
        return loss, {**values, "update_kl": update_kl.item()}

    def _loss(
        self,
        samples: list[Sample],
        batch: TurnBatch,
        scores: Scores,
        old: torch.Tensor,
        kl_coefficient: float,
        warming_up: bool,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Policy + value_coefficient * value - entropy_coefficient * entropy + kl_coefficient * KL(p || p_ref)."""
        params = self._params
        old_values = padded([sample.turn.values for sample in samples], batch)
        advantages = padded([sample.advantages for sample in samples], batch)
        returns = padded([sample.returns for sample in samples], batch)
        importance = None
        if params.importance_cap is not None:
            importance = padded([sample.importance or [] for sample in samples], batch)
        log_ratio = scores.logprobs - old
        if params.ratio == "sequence":
            log_ratio = sequence_log_ratio(log_ratio, batch.mask)
        ends = params.clip_range, params.clip_range_high or params.clip_range
        policy_loss, clipped = clipped_policy_loss(log_ratio, advantages, batch.mask, ends, importance)
        value_loss = clipped_value_loss(scores.values, old_values, returns, batch.mask, params.value_clip_range)
        entropy = masked_mean(scores.entropy, batch.mask)
        values = {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "clip_fraction": clipped.item(),
        }
        if warming_up:
            return params.value_coefficient * value_loss, values
        loss = policy_loss + params.value_coefficient * value_loss - params.entropy_coefficient * entropy
        if kl_coefficient:
            reference = padded([sample.reference for sample in samples], batch)
            loss = loss + kl_coefficient * masked_mean(
                kl_estimate(scores.logprobs, reference, params.kl_estimator), batch.mask
            )
        return loss, values


def _tokens(samples: Sequence[Sample]) -> int:
    return sum(len(sample.turn.reply_tokens) for sample in samples)


def unpadded(values: torch.Tensor, batch: TurnBatch) -> list[list[float]]:
    """The rows of a (turns, longest reply) tensor, as long as their replies."""
    lengths = batch.mask.sum(1).int().tolist()
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]


def padded(rows: Sequence[Sequence[float]], batch: TurnBatch) -> torch.Tensor:
    """Rows of floats in the shape of the batch's replies, 0 where padded."""
    result = torch.zeros(batch.mask.shape)
    for number, row in enumerate(rows):
        result[number, : len(row)] = torch.tensor(row)
    return result.to(batch.mask.device)
