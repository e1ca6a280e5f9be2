"""The two kinds of update, each with its optimiser: PPO on the samples of one rollout, and SFT on corrections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NoReturn, TypeVar

import torch
from torch.nn.utils.rnn import pad_sequence

from castaway.config.ppo import PpoParams
from castaway.datasets.jsonl import Row as Correction
from castaway.models.rows import in_passes
from castaway.models.tokens import ChatTokenizer
from castaway.rl.advantages import ESTIMATORS
from castaway.rl.corrections import correction_tokens
from castaway.rl.losses import (
    clipped_policy_loss,
    clipped_value_loss,
    kl_estimate,
    masked_mean,
    sequence_log_ratio,
)
from castaway.rl.ranks import Ranks
from castaway.rl.rewards import NotFiniteError, Sample
from castaway.rollout.actor_critic import ActorCritic, TurnBatch

Row = TypeVar("Row")
KL_TOLERANCE = 1.5
"""An update ends early when its KL exceeds `kl.target_kl` times this (as in Stable-Baselines3)."""


class Update:
    """What both kinds share: gradients summed over passes and processes, and clipped."""

    def __init__(self, actor: ActorCritic, params: PpoParams, ranks: Ranks, rates: Mapping[str, float]) -> None:
        """Train parts of the actor, `policy` (its adapter) or `value_head`, each at a learning rate."""
        self._actor, self._params, self._ranks = actor, params, ranks
        self._weights = {
            part: [weight for weight in actor.get_submodule(part).parameters() if weight.requires_grad]
            for part in rates
        }
        groups = [{"params": self._weights[part], "lr": rate} for part, rate in rates.items()]
        self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)

    def _in_passes(self, rows: Sequence[Row], tokens: Sequence[list[int]]) -> list[list[Row]]:
        """Rows in groups that one forward and backward pass can hold; their gradients add up."""
        groups = in_passes(tokens, self._params.tokens_per_pass)
        return [[rows[index] for index in group] for group in groups]

    def _gradients(
        self, losses: Iterator[torch.Tensor], weights: Sequence[torch.nn.Parameter]
    ) -> tuple[float, torch.Tensor]:
        """Set the gradients to those of all losses and processes, clipped; returns their norm before, and the loss."""
        self.optimizer.zero_grad()
        total = torch.zeros((), device=weights[0].device)
        for loss in losses:  # a generator: no more than one of their graphs is in memory at a time
            loss.backward()
            total += loss.detach()
        self._ranks.sum_gradients(weights)
        norm = torch.nn.utils.clip_grad_norm_(weights, self._params.max_gradient_norm)
        return norm.item(), total

    def _stop(self, where: str, place: str | None) -> NoReturn:
        """End all processes, for the first place that one of them has."""
        what = "a loss or its gradient"
        self._ranks.gather(None, NotFiniteError(what, where, place) if place else None)
        raise NotFiniteError(what, where, "the sum of its turns")


class PolicyUpdate(Update):
    """PPO on samples: trains the adapter and the value head."""

    def __init__(self, actor: ActorCritic, params: PpoParams, generator: torch.Generator, ranks: Ranks) -> None:
        """Minibatches are drawn from `generator`."""
        rates = {"policy": params.learning_rate, "value_head": params.value_learning_rate}
        super().__init__(actor, params, ranks, rates)
        self._generator = generator
        self._with_critic = ESTIMATORS[params.advantage.estimator].compare is None

    def update(
        self,
        samples: Sequence[Sample],
        numbers: Sequence[int],
        step: int,
        kl_coefficient: float,
    ) -> dict[str, float]:
        """A few passes over the samples of a step, whose number, from 0, decides rates and the critic's warm-up.

        Args:
            samples: this process's, of one rollout.
            numbers: one for each sample; over all processes they go from 0 without gaps.
            kl_coefficient: of the KL penalty inside the loss; 0 if it is not there.

        Returns means over the minibatches: losses (of the critic if the estimator has one), the entropy in nats, the
        share of clipped tokens, the norm of the gradient before it was clipped, and `update_kl`, the KL in nats per
        token from the policy before the update. NotFiniteError if a loss or gradient is not finite: no step was made
        with it.
        """
        self._anneal(step)
        warming_up = step < self._params.critic_warmup
        mine = dict(zip(numbers, samples, strict=True))
        everything = sum(self._ranks.gather(len(samples)))
        totals: dict[str, float] = {}
        count = 0
        for chosen in self._minibatches(everything):
            some = [mine[number] for number in chosen if number in mine]
            values = self._minibatch(some, kl_coefficient, warming_up, f"step {step + 1}, minibatch {count + 1}")
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
        target = self._params.kl.target_kl
        return target is not None and values["update_kl"] > KL_TOLERANCE * target

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
            drawn = torch.randperm(count, generator=self._generator, device=self._generator.device)
            order = self._ranks.first(drawn.tolist)
            for start in range(0, len(order), size):
                yield order[start : start + size]

    def _minibatch(
        self, samples: list[Sample], kl_coefficient: float, warming_up: bool, where: str
    ) -> dict[str, float]:
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

        parts = ("value_head",) if warming_up else ("policy", "value_head")
        learning = [weight for part in parts for weight in self._weights[part]]
        norm, _ = self._gradients(losses(), learning)
        mine = sum(share for share, _ in passes)
        names = passes[0][1] if passes else ()
        means = {name: sum(share * values[name] for share, values in passes) / mine for name in names}
        metrics = {**self._ranks.mean(means, mine), "gradient_norm": norm}
        if not all(map(isfinite, metrics.values())):
            one_by_one = (self._pass([sample], kl_coefficient, warming_up)[0] for sample in samples)
            bad = first_not_finite(one_by_one, learning)
            self._stop(where, None if bad is None else samples[bad].place)
        if not self._too_far(metrics):
            self.optimizer.step()
        return metrics

    def _pass(
        self, samples: list[Sample], kl_coefficient: float, warming_up: bool
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The mean loss over the tokens of some samples, and figures of the same kind.

        Policy + value_coefficient * value - entropy_coefficient * entropy + kl_coefficient * KL(p || p_ref).

        Without a critic there is no value loss: it would move the policy through the trunk that they share.
        """
        params = self._params.loss
        batch = self._actor.batch([(sample.turn.prompt_tokens, sample.turn.reply_tokens) for sample in samples])
        scores = self._actor.score(
            batch,
            self._params.rollout.temperature,
            value_head_only=warming_up,
            learn_entropy=params.entropy_coefficient > 0,
        )
        old = padded([sample.old_logprobs for sample in samples], batch)
        advantages = padded([sample.advantages for sample in samples], batch)
        importance = None
        if samples[0].importance is not None:  # all of a step have weights, or none has
            importance = padded([sample.importance or [] for sample in samples], batch)
        log_ratio = scores.logprobs - old
        if params.importance_level == "sequence":
            log_ratio = sequence_log_ratio(log_ratio, batch.mask)
        ends = params.clip_range, params.clip_range_high or params.clip_range
        policy_loss, clipped = clipped_policy_loss(log_ratio, advantages, batch.mask, ends, importance)
        entropy = masked_mean(scores.entropy, batch.mask)
        values = {"policy_loss": policy_loss.item(), "entropy": entropy.item(), "clip_fraction": clipped.item()}
        loss = policy_loss
        if self._with_critic:
            before = padded([sample.turn.values for sample in samples], batch)
            returns = padded([sample.returns for sample in samples], batch)
            value_loss = clipped_value_loss(scores.values, before, returns, batch.mask, params.value_clip_range)
            values["value_loss"] = value_loss.item()
            weighed = params.value_coefficient * value_loss
            loss = weighed if warming_up else loss + weighed
        values["update_kl"] = masked_mean(kl_estimate(old, scores.logprobs.detach(), "k3"), batch.mask).item()
        if warming_up:
            return loss, values
        loss = loss - params.entropy_coefficient * entropy
        if kl_coefficient:
            reference = padded([sample.reference for sample in samples], batch)
            loss = loss + kl_coefficient * masked_mean(
                kl_estimate(scores.logprobs, reference, self._params.kl.estimator), batch.mask
            )
        return loss, values


class Imitation(Update):
    """Supervised learning on corrections: trains the adapter."""

    def __init__(self, actor: ActorCritic, params: PpoParams, tokenizer: ChatTokenizer, ranks: Ranks) -> None:
        # The optimiser is kept from pass to pass: the first step of a new one moves every weight by the whole rate.
        super().__init__(actor, params, ranks, {"policy": params.corrections.sft_learning_rate})
        self._tokenizer = tokenizer

    def update(self, corrections: Sequence[Correction], step: int) -> float:
        """One pass, in this step, over corrections that all processes know; returns the mean loss."""
        rows = [correction_tokens(self._tokenizer, correction) for correction in corrections]
        size, weights, losses = self._params.minibatch_turns, self._weights["policy"], []
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            mine = self._ranks.share(some)
            learned = sum(sum(flags) for _, _, flags in some)
            passes = self._in_passes(mine, [[*prompt, *target] for prompt, target, _ in mine])
            parts = (self._loss(part) * (sum(sum(row[2]) for row in part) / learned) for part in passes)
            norm, loss = self._gradients(parts, weights)
            losses.append(self._ranks.sum(loss).item())
            if not isfinite(norm) or not isfinite(losses[-1]):
                bad = first_not_finite((self._loss([row]) for row in mine), weights)
                number = start + (bad or 0) * self._ranks.count + self._ranks.rank + 1
                where = f"step {step + 1}, minibatch {len(losses)} of corrections"
                self._stop(where, None if bad is None else f"correction {number}")
            self.optimizer.step()
        return sum(losses) / len(losses)

    def _loss(self, rows: Sequence[tuple[list[int], list[int], list[bool]]]) -> torch.Tensor:
        """The mean over the tokens that are learned, of rows as `correction_tokens` gives them."""
        batch = self._actor.batch([(prompt, target) for prompt, target, _ in rows])
        learned = padded([[float(flag) for flag in flags] for _, _, flags in rows], batch)
        return -masked_mean(self._actor.score(batch, temperature=1.0).logprobs, learned)


def first_not_finite(losses: Iterable[torch.Tensor], weights: Sequence[torch.nn.Parameter]) -> int | None:
    """The number of the first loss that is not finite, or whose gradient is not; None if all are."""
    for number, loss in enumerate(losses):
        for weight in weights:
            weight.grad = None
        loss.backward()
        gradients = (weight.grad for weight in weights if weight.grad is not None)
        if not isfinite(loss.item()) or not all(bool(gradient.isfinite().all()) for gradient in gradients):
            return number
    return None


def _tokens(samples: Sequence[Sample]) -> int:
    return sum(len(sample.turn.reply_tokens) for sample in samples)


def padded(rows: Sequence[Sequence[float]], batch: TurnBatch) -> torch.Tensor:
    """Rows of floats, as long as the replies, in the shape of the batch; 0 where padded."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(batch.mask.device)
