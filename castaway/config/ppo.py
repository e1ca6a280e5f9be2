"""The section `ppo` of `params.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from castaway.config.section import (
    Fraction,
    NaturalNumber,
    NonNegative,
    Positive,
    PositiveInteger,
    Section,
    StageSection,
)
from castaway.config.sections import LoraParams


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
    episodes_per_step: PositiveInteger
    """Number of episodes played at the same time in a step: to their end, or for `turns_per_step` turns."""
    turns_per_step: PositiveInteger | None
    """Number of turns in a rollout; unfinished episodes continue in the next one. null: play whole episodes."""
    sampler: Literal["here", "vllm"]
    """What samples the replies: `here`, the training process; `vllm`, a vLLM server that the stage starts, for models
    with billions of parameters. With vllm, results are not reproducible to the byte."""
    sampler_gibibytes: PositiveInteger
    """Memory for the KV cache of the vLLM server, in GiB; it shares its accelerator with the training process."""
    lanes: PositiveInteger
    """Number of groups of episodes: while the teacher judges one group, the policy plays another. 2 helps if the
    teacher is slow."""
    ahead: bool
    """Whether to play the next rollout during the update, so that a slow teacher is always busy; its replies are
    sampled with the weights from before that update."""
    replay: ReplayParams
    """Replay of failed episodes."""
    curriculum: bool
    """Whether curriculum stages follow one another by success rate; otherwise each episode's stage is drawn at
    random."""
    self_play: SelfPlayParams
    """The opponents of a curriculum stage that names the opponent `self`."""
    validation: ValidationParams
    """The curve of success without help, `validation_success_rate`."""
    keep: Literal["last", "best"]
    """Which weights the stage hands on: those of the last step, or those that did best in validation."""
    epochs: PositiveInteger
    """Number of passes over the batch of a step."""
    minibatch_turns: PositiveInteger
    tokens_per_pass: PositiveInteger
    """Largest number of tokens, with padding, in one forward pass; a larger minibatch is split, and its gradients are
    summed."""
    sampling_tokens_per_pass: PositiveInteger
    """Largest number of tokens, with padding, of the prompts and replies that are sampled side by side, here and in
    evaluation. Sampling keeps keys and values only, a thirtieth of what training keeps of a token; and it is fastest
    with many rows."""
    learning_rate: Positive
    value_learning_rate: Positive
    max_gradient_norm: Positive
    clip_range: Positive
    """How far the ratio of new to old likelihood may go from 1 before a token's gradient is dropped."""
    clip_range_high: Positive | None
    """The same for ratios above 1 (clip-higher); null: `clip_range`."""
    ratio: Literal["token", "sequence"]
    """Of what the ratio is taken: of each token, or of the whole reply, as the mean over its tokens (GSPO)."""
    value_clip_range: Positive | None
    """Largest change of a value estimate in one update; null: no clipping."""
    value_coefficient: NonNegative
    critic_warmup: NaturalNumber
    """Number of first steps in which only the value head is trained."""
    entropy_coefficient: NonNegative
    kl_coefficient: NonNegative
    """Weight of the per-token KL penalty against the SFT policy."""
    kl_in: Literal["reward", "loss"]
    """Whether the KL penalty is part of the reward or of the loss."""
    kl_estimator: Literal["k1", "k2", "k3"]
    """The estimator of the KL (Schulman 2020, `castaway/rl/kl.py`); in the loss, k1 has no useful gradient."""
    adaptive_kl: Positive | None
    """Target KL, in nats per token, for adapting `kl_coefficient`; null: the coefficient is constant."""
    target_kl: Positive | None
    """The rest of an update is skipped, the step that shows it too, once its KL, in nats per token, exceeds 1.5 times
    this; null: never."""
    estimator: Literal["gae", "rloo", "grpo", "reinforce"]
    """The advantage estimator (`castaway/rl/advantages.py`); all but `gae` do without the critic."""
    group_size: PositiveInteger
    """How often each drawn episode is played in a step: the groups of `rloo` and `grpo`."""
    gamma_turn: Fraction
    lambda_turn: Fraction
    gamma_token: Fraction
    lambda_token: Fraction
    normalise_by: Literal["batch", "role"]
    """Whether advantages get mean 0 and standard deviation 1 over the whole batch or within each role."""
    temperature: Positive
    max_new_tokens: PositiveInteger
    importance_cap: Positive | None
    """Upper limit of the importance weight of a token that another engine (vLLM) sampled; null: use the sampler's
    log-probabilities as they are."""
    reward_scale: Positive
    """Factor for the environment's rewards, applied before all others."""
    cut_off_pay: Fraction
    """Share of its reward that a reply gets if it was cut off at `max_new_tokens` and the reward is a gain."""
    penalty_weight: NonNegative
    """Weight of the teacher's penalty for each reply."""
    reward_model_weight: NonNegative
    correct: Literal["invalid", "mistakes", "moves"]
    """What the teacher corrects: `invalid` replies alone; legal `mistakes` too, by the task's expert; or all `moves`:
    it says of each turn what the expert plays."""
    corrections_kept: PositiveInteger
    """How many corrections are kept for correction-SFT: the newest."""
    sft_interval: PositiveInteger
    """Number of steps between SFT passes on new corrections."""
    sft_minimum: PositiveInteger
    """Smallest number of new corrections for such a pass; with fewer it is left out."""
    sft_learning_rate: Positive
    checkpoint_interval: PositiveInteger
    lora: LoraParams

    @model_validator(mode="after")
    def _estimator(self) -> PpoParams:
        if self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_estimator is 'k1', expected 'k2' or 'k3' if kl_in is 'loss': the gradient of k1 is useless there"
            )
        if self.estimator in ("rloo", "grpo") and self.group_size == 1:
            raise ValueError(f"group_size is 1, expected 2 or more if estimator is {self.estimator}")
        if self.estimator != "gae" and self.turns_per_step is not None:
            raise ValueError(f"turns_per_step is {self.turns_per_step}, expected null if estimator is {self.estimator}")
        if self.episodes_per_step % self.group_size or (self.group_size > 1 and self.turns_per_step is not None):
            raise ValueError(
                f"group_size is {self.group_size}, expected a divisor of episodes_per_step ({self.episodes_per_step}), "
                "and 1 with turns_per_step"
            )
        if self.lanes > 1 and self.turns_per_step is not None:
            raise ValueError(f"lanes is {self.lanes}, expected 1 with turns_per_step, which plays in one lane")
        if self.sampler == "vllm" and self.importance_cap is None:
            raise ValueError("importance_cap is null, expected a number if sampler is vllm, such as 2.0")
        if self.sampler == "vllm" and self.turns_per_step is not None:
            raise ValueError(f"turns_per_step is {self.turns_per_step}, expected null if sampler is vllm")
        return self
