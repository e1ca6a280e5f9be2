"""Log-probabilities of tokens from logits in bfloat16, with as little memory as they can have.

With a vocabulary of 49,152, a thousand logits of replies are 94 MiB in bfloat16. A log-softmax in float32, what its
gradient needs and the gradient itself would be three times 188 MiB, and on a CPU a fifth of an update goes into writing
them. Here each block of rows is brought to float32 by itself, forward and backward, and what is kept are the logits as
they came and one number a row, the logarithm of the softmax's denominator:

    log p = z - L    dlogits = dlog_p (onehot - exp(z - L)) / temperature    where z = logits / temperature
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

BLOCK_ON_CPU, BLOCK_ELSEWHERE = 2**19, 2**25
"""Logits in float32 at the same time: few enough for a core's cache; on a GPU, many enough to keep it busy."""


def token_scores(
    logits: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of tokens, and entropies, in nats; gradients flow from the log-probabilities only.

    Args:
        logits: (n, vocabulary).
        tokens: (n) token ids.
        temperature: that the logits are divided by.

    Returns:
        Shapes (n), in float32.
    """
    scores: tuple[torch.Tensor, torch.Tensor] = _TokenScores.apply(logits, tokens, temperature)
    return scores


class _TokenScores(torch.autograd.Function):
    """Computes `token_scores`."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, tokens: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, entropies, log_sums = torch.empty((3, len(tokens)), device=logits.device).unbind()
        for rows in _blocks(logits):
            scaled = _scaled(logits[rows], temperature)
            log_all = torch.log_softmax(scaled, dim=-1)
            chosen = tokens[rows, None]
            logprobs[rows] = log_all.gather(-1, chosen)[:, 0]
            log_sums[rows] = scaled.gather(-1, chosen)[:, 0] - logprobs[rows]
            entropies[rows] = -(log_all.exp().mul_(log_all)).sum(-1)
        ctx.save_for_backward(logits, tokens, log_sums)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, tokens, log_sums = ctx.saved_tensors
        to_logits = torch.empty_like(logits)
        for rows in _blocks(logits):
            share = (gradients[0][rows] / ctx.temperature)[:, None]
            slopes = _scaled(logits[rows], ctx.temperature).sub_(log_sums[rows, None]).exp_().mul_(-share)
            to_logits[rows] = slopes.scatter_add_(-1, tokens[rows, None], share)
        return to_logits, None, None


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Logits divided by the temperature, in float32 and in memory of their own."""
    copy = logits.to(torch.float32, copy=True)
    return copy if temperature == 1.0 else copy.div_(temperature)


def _blocks(logits: torch.Tensor) -> Iterator[slice]:
    """Parts of the rows."""
    size = max(1, (BLOCK_ON_CPU if logits.is_cpu else BLOCK_ELSEWHERE) // logits.shape[-1])
    for start in range(0, len(logits), size):
        yield slice(start, start + size)
