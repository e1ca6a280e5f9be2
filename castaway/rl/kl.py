"""How far the policy is from the policy it started from: estimators, and a coefficient that adapts.

For tokens drawn from p, and with d = log q - log p (Schulman 2020, joschu.net/blog/kl-approx):

    k1 = -d                  unbiased, may be negative
    k2 = d^2 / 2             biased, never negative, of little variance
    k3 = exp(d) - 1 - d      unbiased, never negative

Taken from the reward, the penalty is a number and any will do. As a loss, what counts is the gradient (Tang and Munos
2025, arXiv:2506.09477): that of k1 has mean zero whatever q is, so k1 is not admitted; that of k2, -d * grad log p, has
the gradient of KL(p || q) as its mean; that of k3 has the gradient of KL(q || p), which is nearly the same while p is
close to q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

KlEstimator = Literal["k1", "k2", "k3"]

SPEED = 0.1
"""How fast the coefficient moves (Ziegler et al. 2019, K_beta)."""
LARGEST_ERROR = 0.2
"""Relative error of the measured KL that counts at most."""


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
    return difference**2 / 2 if estimator == "k2" else difference.exp() - 1 - difference


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
