"""The losses of PPO (Schulman et al. 2017, arXiv:1707.06347), as pure functions of tensors of one shape.

`mask` is 1.0 where a token counts. Means are over the tokens that count.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch


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


def truncated_importance(trainer: torch.Tensor, sampler: torch.Tensor, cap: float) -> torch.Tensor:
    """Weights for tokens that another engine drew.

    Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training":

    w = min(exp(log p_trainer - log p_sampler), cap)

    Both log-probabilities, in nats and of one shape, are of the weights before the update. An inference server rounds
    otherwise than the trainer, so it draws from a slightly different policy; without w the gradient is biased, and
    without the cap its variance has no bound.
    """
    return torch.exp(trainer - sampler).clamp(max=cap)


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


def normalise(
    values: torch.Tensor, mask: torch.Tensor, total: Callable[[torch.Tensor], torch.Tensor] = lambda part: part
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Shift and scale values to mean 0 and standard deviation 1 over the mask.

    With fewer than two values, or all alike, the deviation is taken as 1, so that constant rewards move nothing.

    Args:
        values: of one dimension.
        mask: 1.0 where a value counts.
        total: adds up what several processes hold.

    Returns:
        The normalised values, 0 outside the mask; the mean; the standard deviation.
    """
    count = total(mask.sum()).clamp(min=1.0)
    mean = total((values * mask).sum()) / count
    variance = total(((values - mean) ** 2 * mask).sum()) / count
    # Python's square root: torch's, of float32, is rounded otherwise by each maker's processors.
    root = sqrt(variance.item())
    deviation = variance.new_tensor(root if root > 1e-6 else 1.0)
    return (values - mean) / deviation * mask, mean, deviation
