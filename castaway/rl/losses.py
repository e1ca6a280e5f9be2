"""The losses of PPO (Schulman et al. 2017, arXiv:1707.06347), as pure functions of tensors of one shape.

`mask` is 1.0 where a token counts. Means are over the tokens that count.

**KL.** How far the policy is from another one is estimated from tokens drawn from p. With d = log q - log p (Schulman
2020, joschu.net/blog/kl-approx):

    k1 = -d                  unbiased, may be negative
    k2 = d^2 / 2             biased, never negative, of little variance
    k3 = exp(d) - 1 - d      unbiased, never negative

The mean of k3 is that of exp(d), the ratio q / p, whose variance has no bound: a token that p gives 1e-5 and q 1 counts
100,000 nats. So k3 goes on in a straight line where the ratio is above `LARGEST_RATIO`: smooth, never negative, with a
gradient of at most LARGEST_RATIO - 1 (where it is bent, it is too small in the mean).

Taken from the reward, the penalty is a number and any will do. As a loss, what counts is the gradient (Tang and Munos
2025, arXiv:2506.09477): that of k1 has mean zero whatever q is, so k1 is not admitted; that of k2, -d * grad log p, has
the gradient of KL(p || q) as its mean; that of k3 has the gradient of KL(q || p), which is nearly the same while p is
close to q.
"""

from dataclasses import dataclass
from math import log
from typing import Literal

import torch

KlEstimator = Literal["k1", "k2", "k3"]

LARGEST_RATIO = 10.0
"""Ratio of the other policy to p from which k3 is a straight line."""
SPEED = 0.1
"""How fast the KL coefficient moves (Ziegler et al. 2019, K_beta)."""
LARGEST_ERROR = 0.2
"""Relative error of the measured KL that counts at most."""


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of the values where the mask is 1; 0 if it is so nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1.0)


def clipped_policy_loss(
    log_ratio: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    clip_range: tuple[float, float],
    importance: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The negated clipped surrogate objective of PPO (eq. 7).

    ratio = exp(log_ratio)
    loss  = mean(w * max(-A * ratio, -A * clip(ratio, 1 - c_low, 1 + c_high)))

    Schulman et al. have one c for both ends. With a larger upper end, tokens that were unlikely can gain more in one
    update, which keeps exploration alive ("clip-higher", Yu et al. 2025, DAPO, arXiv:2503.14476, eq. 10).

    Args:
        log_ratio: of the policy that is trained to the policy before the update, for each token, in nats.
        advantages: A.
        mask: 1.0 where a token counts.
        clip_range: c_low and c_high.
        importance: w; without it 1.

    Returns:
        The loss, and the share of tokens whose gradient the clip removes; both are scalars.
    """
    ratio = torch.exp(log_ratio)
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip_range[0], 1 + clip_range[1])
    held_back = (clipped > plain).float()
    loss = torch.maximum(plain, clipped)
    return masked_mean(loss if importance is None else importance * loss, mask), masked_mean(held_back, mask)


def sequence_log_ratio(log_ratio: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over each reply of its tokens' log-ratios, for each token (GSPO-token, arXiv:2507.18071, eq. 13-14).

    s   = exp(sum of log_ratio over the reply / its length)
    s_t = stop(s) * p_t / stop(p_t)

    A reply is then kept or clipped as a whole, and no single token decides. The value is the same for all tokens of a
    reply; the gradient of each is that of its own log-probability, so advantages may differ from token to token. The
    values are nearer to 1 than those of tokens, so `clip_range` has to be smaller: the paper's are 3e-4 and 4e-4.

    Args:
        log_ratio: (replies, tokens), in nats.
        mask: 1.0 where a token counts.
    """
    mean = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1.0)
    return mean.detach() + log_ratio - log_ratio.detach()


def clipped_value_loss(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, clip_range: float | None
) -> torch.Tensor:
    """Half the mean squared error of the values: for each token the larger of the errors with and without the clip.

    Huang et al. 2022, "The 37 implementation details of PPO", detail 9:
        loss = 0.5 * mean(max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2))

    Without a range c nothing is clipped.
    """
    if clip_range is None:
        return 0.5 * masked_mean((values - returns) ** 2, mask)
    clipped = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return 0.5 * masked_mean(torch.maximum((values - returns) ** 2, (clipped - returns) ** 2), mask)


def kl_estimate(logprobs: torch.Tensor, other_logprobs: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """KL(p || other) in nats at each token, estimated from tokens that were drawn from p.

    Args:
        logprobs: of the tokens under p, in nats.
        other_logprobs: of the same tokens under the other policy; of the same shape.
        estimator: see the module.
    """
    difference = other_logprobs - logprobs
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference**2 / 2
    bend = log(LARGEST_RATIO)
    ratio = difference.clamp(max=bend).exp() + LARGEST_RATIO * (difference - bend).clamp(min=0)
    return ratio - 1 - difference


@dataclass
class KlCoefficient:
    """The weight of the KL penalty, steered toward a target if there is one.

    Ziegler et al. 2019 (arXiv:1909.08593), section 2.2, with the KL per token:

        error = clip(kl / target - 1, -0.2, 0.2)
        value = value * (1 + 0.1 * error)
    """

    value: float
    target: float | None

    def adapt(self, measured: float) -> None:
        """Take the KL of one batch, in nats per token, into account."""
        if self.target is not None:
            error = max(-LARGEST_ERROR, min(LARGEST_ERROR, measured / self.target - 1))
            self.value *= 1 + SPEED * error
