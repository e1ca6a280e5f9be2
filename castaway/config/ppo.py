"""The section `ppo` of `params.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import model_validator

from castaway.config.section import Fraction, Natural, NonNegative, Positive, PositiveInteger, Section, StageSection
from castaway.config.sections import LoraParams


def estimators() -> Mapping[str, Any]:
    """The advantage estimators by name, from the file that computes them.

    It is named, and not imported: every stage depends on what this folder imports.
    """
    return dict(resolve_name("castaway.rl.advantages:ESTIMATORS"))


class RolloutParams(Section):
    """How episodes are played, and replies sampled."""

    episodes_per_step: PositiveInteger
    """Number of episodes played at the same time in a step: to their end, or for `turns_per_step` turns."""
    turns_per_step: PositiveInteger | None
    """Number of turns in a rollout; unfinished episodes continue in the next one. null: play whole episodes."""
    group_size: PositiveInteger
    """How often each drawn episode is played in a step: the groups of `rloo` and `grpo`."""
    temperature: Positive
    max_new_tokens: PositiveInteger
    tokens_per_pass: PositiveInteger
    """Largest number of tokens, with padding, of the prompts and replies that are sampled side by side, here and in
    evaluation. Sampling keeps keys and values only, a thirtieth of what training keeps of a token; and it is fastest
    with many rows."""
    sampler: Literal["in_process", "vllm"]
    """What samples the replies: `in_process`, the training process; `vllm`, a vLLM server that the stage starts, for
    models with billions of parameters. With vllm, results are not reproducible to the byte."""
    sampler_gibibytes: PositiveInteger
    """Memory for the KV cache of the vLLM server, in GiB, on each of its GPUs (`vllm` in `host.yaml`); the first one is
    the training process's too."""
    rollout_groups: PositiveInteger
    """Number of groups of episodes: while the teacher judges one group, the policy plays another. 2 helps if the
    teacher is slow."""
    async_rollout: bool
    """Whether to play the next rollout during the update, so that a slow teacher is always busy; its replies are
    sampled with the weights from before that update."""


class AdvantageParams(Section):
    """How much better than expected a reply was."""

    estimator: str
    """One of `castaway/rl/advantages.py`; all but `gae` do without the critic."""
    gamma_turn: Fraction
    lambda_turn: Fraction
    gamma_token: Fraction
    lambda_token: Fraction
    normalise_by: Literal["batch", "role"]
    """Whether advantages get mean 0 and standard deviation 1 over the whole batch or within each role."""

    @model_validator(mode="after")
    def _known(self) -> AdvantageParams:
        if self.estimator not in estimators():
            raise ValueError(f"estimator is {self.estimator!r}, expected one of {', '.join(estimators())}")
        return self


class LossParams(Section):
    """The clipped losses of PPO."""

    clip_range: Positive
    """How far the ratio of new to old likelihood may go from 1 before a token's gradient is dropped."""
    clip_range_high: Positive | None
    """The same for ratios above 1 (clip-higher); null: `clip_range`."""
    importance_level: Literal["token", "sequence"]
    """Of what the ratio is taken: of each token, or of the whole reply, as the mean over its tokens (GSPO)."""
    importance_cap: Positive | None
    """Upper limit of the importance weight of a token that another engine (vLLM) sampled; null: use the sampler's
    log-probabilities as they are. In bfloat16 and NF4, null means 2.0 with `async_rollout` or `turns_per_step`, whose
    replies may be older than one update."""
    value_clip_range: Positive | None
    """Largest change of a value estimate in one update; null: no clipping."""
    value_coefficient: NonNegative
    entropy_coefficient: NonNegative


class KlParams(Section):
    """What holds the policy near the SFT policy, and an update near the policy before it."""

    coefficient: NonNegative
    """Weight of the per-token KL penalty against the SFT policy."""
    penalty_in: Literal["reward", "loss"]
    """Whether the KL penalty is part of the reward or of the loss."""
    estimator: Literal["k1", "k2", "k3"]
    """The estimator of the KL (Schulman 2020, `castaway/rl/losses.py`); in the loss, k1 has no useful gradient."""
    adaptive_kl: Positive | None
    """Target KL, in nats per token, for adapting `coefficient`; null: the coefficient is constant."""
    target_kl: Positive | None
    """The rest of an update is skipped, the step that shows it too, once its KL, in nats per token, exceeds 1.5 times
    this; null: never."""

    @model_validator(mode="after")
    def _gradient(self) -> KlParams:
        if self.penalty_in == "loss" and self.estimator == "k1":
            raise ValueError(
                "estimator is 'k1', expected 'k2' or 'k3' if penalty_in is 'loss': the gradient of k1 is useless there"
            )
        return self


class CorrectionsParams(Section):
    """What the teacher corrects, and the SFT passes on it."""

    scope: Literal["invalid", "mistakes", "moves"]
    """What the teacher corrects: `invalid` replies alone; legal `mistakes` too, by the task's expert; or all `moves`:
    it says of each turn what the expert plays."""
    kept: PositiveInteger
    """How many corrections are kept for correction-SFT: the newest."""
    sft_interval: PositiveInteger
    """Number of steps between SFT passes on new corrections."""
    sft_minimum: PositiveInteger
    """Smallest number of new corrections for such a pass; with fewer it is left out."""
    sft_learning_rate: Positive
    critique: bool
    """Whether the target is the teacher's critique and then the action, for SFT passes and correction-SFT. A critique
    with which the target would be longer than `rollout.max_new_tokens` is left out."""


class ReplayParams(Section):
    """Replay of failed episodes."""

    share: Fraction
    """Share of the episodes that are replays of failed ones."""
    capacity: PositiveInteger
    """Largest number of failed episodes to keep; the oldest is dropped first."""
    mastery: PositiveInteger
    """Number of successes in a row after which an episode is no longer replayed."""


class SelfPlayParams(Section):
    """Earlier versions of the policy, which play the opponents in self-play."""

    size: PositiveInteger
    """Largest number of versions to keep; the oldest is dropped first. The first one is the SFT policy."""
    interval: PositiveInteger
    """Number of PPO steps after which the current policy is added."""


class ValidationParams(Section):
    """Episodes on validation ids that the policy plays by itself during PPO."""

    interval: PositiveInteger
    """Number of steps from one validation to the next; the last step has one as well."""
    episodes: PositiveInteger
    """Number of episodes, the same ones each time."""
    temperature: Positive


class PpoParams(StageSection):
    """PPO on whole episodes, with an SFT pass on corrections at intervals."""

    steps: PositiveInteger
    """Number of PPO steps; each is one rollout and one update."""
    epochs: PositiveInteger
    """Number of passes over the batch of a step."""
    minibatch_turns: PositiveInteger
    tokens_per_pass: PositiveInteger
    """Largest number of tokens, with padding, in one forward pass; a larger minibatch is split, and its gradients are
    summed."""
    learning_rate: Positive
    value_learning_rate: Positive
    max_gradient_norm: Positive
    critic_warmup: Natural
    """Number of first steps in which only the value head is trained."""
    reward_scale: Positive
    """Factor for the environment's rewards, applied before all others."""
    truncated_reward_factor: Fraction
    """Factor for the reward of a reply that was cut off at `max_new_tokens`, if the reward is a gain."""
    penalty_weight: NonNegative
    """Weight of the teacher's penalty for each reply."""
    reward_model_weight: NonNegative
    curriculum: bool
    """Whether curriculum stages follow one another by success rate; otherwise each episode's stage is drawn at
    random."""
    select: Literal["last", "best"]
    """Which weights the stage hands on: those of the last step, or those that did best in validation."""
    checkpoint_interval: PositiveInteger
    """Number of steps between checkpoints, from which a killed stage goes on; they are deleted in the end."""
    keep_checkpoints: bool
    """Whether the policy of each checkpoint stays, as an adapter in `scratch/checkpoints/RUN`."""
    rollout: RolloutParams
    advantage: AdvantageParams
    loss: LossParams
    kl: KlParams
    corrections: CorrectionsParams
    replay: ReplayParams
    """Replay of failed episodes."""
    self_play: SelfPlayParams
    """The opponents of a curriculum stage that names the opponent `self`."""
    validation: ValidationParams
    """The curve of success without help, `validation_success_rate`."""
    lora: LoraParams

    @model_validator(mode="after")
    def _compatible(self) -> PpoParams:
        play, turns, name = self.rollout, self.rollout.turns_per_step, self.advantage.estimator
        estimator = estimators()[name]
        if estimator.compare and estimator.group == "episode" and play.group_size == 1:
            raise ValueError(f"rollout.group_size is 1, expected 2 or more if advantage.estimator is {name}")
        if estimator.compare and turns is not None:
            raise ValueError(f"rollout.turns_per_step is {turns}, expected null if advantage.estimator is {name}")
        if estimator.compare and self.critic_warmup:
            raise ValueError(
                f"critic_warmup is {self.critic_warmup}, expected 0 if advantage.estimator is {name}: it has no critic"
            )
        if play.episodes_per_step % play.group_size or (play.group_size > 1 and turns is not None):
            raise ValueError(
                f"rollout.group_size is {play.group_size}, expected a divisor of episodes_per_step "
                f"({play.episodes_per_step}), and 1 with turns_per_step"
            )
        if play.rollout_groups > 1 and turns is not None:
            raise ValueError(f"rollout.rollout_groups is {play.rollout_groups}, expected 1 with turns_per_step")
        if play.sampler == "vllm" and self.loss.importance_cap is None:
            raise ValueError("loss.importance_cap is null, expected a number if rollout.sampler is vllm, such as 2.0")
        return self
