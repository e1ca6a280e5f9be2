"""The losses of PPO (Schulman et al. 2017, arXiv:1707.06347), as pure functions of tensors of one shape.

`mask` is 1.0 where a token counts. Means are over the tokens that count.
"""

from __future__ import annotations

import torch


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of the values where the mask is 1; 0 if it is so nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1.0)


def clipped_policy_loss(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, clip_range: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped surrogate (eq. 7) with its sign turned, and the share of tokens that the clip holds back.

    ratio = exp(logprob - old_logprob)
    loss  = mean(max(-A * ratio, -A * clip(ratio, 1 - c, 1 + c)))
    """
    ratio = torch.exp(logprobs - old_logprobs)
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip_range, 1 + clip_range)
    held_back = (clipped > plain).float()
    return masked_mean(torch.maximum(plain, clipped), mask), masked_mean(held_back, mask)


def clipped_value_loss(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, clip_range: float
) -> torch.Tensor:
    """Half the squared error, the worse of the free and the clipped prediction.

    Huang et al. 2022, "The 37 implementation details of PPO", detail 9:
        loss = 0.5 * mean(max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2))
    """
    clipped = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return 0.5 * masked_mean(torch.maximum((values - returns) ** 2, (clipped - returns) ** 2), mask)


def approximate_kl(logprobs: torch.Tensor, other_logprobs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of the k3 estimator of KL(p || other) on tokens drawn from p (Schulman 2020, joschu.net/blog/kl-approx).

    k3 = exp(log q - log p) - 1 - (log q - log p), never negative and unbiased.
    """
    difference = other_logprobs - logprobs
    return masked_mean(difference.exp() - 1 - difference, mask)


def normalise(values: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values with mean 0 and standard deviation 1 over the mask; also that mean and deviation.

    With fewer than two values, or all alike, the deviation is taken as 1, so that constant rewards move nothing.
    """
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    deviation = variance.sqrt()
    deviation = torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))
    return (values - mean) / deviation * mask, mean, deviation
