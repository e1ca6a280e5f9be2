"""How far the policy is from the policy it started from: estimators, and a coefficient that adapts.

For tokens drawn from p, and with d = log q - log p (Schulman 2020, joschu.net/blog/kl-approx):

    k1 = -d                  unbiased, may be negative
    k3 = exp(d) - 1 - d      unbiased, never negative

Taken from the reward, the penalty is a number and either will do. As a loss, k1 is useless: the expectation of its
gradient is zero whatever q is (Tang and Munos 2025, arXiv:2506.09477), so only k3 is admitted there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

KlEstimator = Literal["k1", "k3"]

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
    return -difference if estimator == "k1" else difference.exp() - 1 - difference


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
