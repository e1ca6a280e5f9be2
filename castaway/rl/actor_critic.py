"""The student: a language model with an adapter, and a value head on the same trunk.

The reference policy is the same model with the adapter switched off, so no second copy is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from castaway.models.folded import folded
from castaway.models.places import hidden_states_at
from castaway.models.policy import save_adapter

VALUE_HEAD_FILE = "value_head.safetensors"


@dataclass(frozen=True)
class Scores:
    """Scores of replies under a model; every field has the shape (turns, longest reply) and is 0 where padded."""

    logprobs: torch.Tensor
    """Log-probability of each reply token at the sampling temperature, in nats."""
    entropy: torch.Tensor
    """Entropy of the distribution that each reply token was drawn from, in nats."""
    values: torch.Tensor
    """Value before each reply token, in the units of `castaway.rl.rewards.turn_reward`."""


class ActorCritic(nn.Module):
    """Policy and value function on one trunk."""

    def __init__(self, policy: PeftModel | PreTrainedModel) -> None:
        """Put a value head, at first zero everywhere, on the policy."""
        super().__init__()
        self.policy = policy
        width = self.causal.config.hidden_size
        self.value_head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        final: Any = self.value_head[2]
        nn.init.zeros_(final.weight)
        nn.init.zeros_(final.bias)

    @property
    def causal(self) -> Any:
        """The language model itself; an adapter lives inside its layers."""
        return self.policy.get_base_model() if isinstance(self.policy, PeftModel) else self.policy

    def last_hidden_state(self, **inputs: Any) -> torch.Tensor:
        """(rows, width) the final hidden states of the last tokens of rows that are padded on the left."""
        tokens: torch.Tensor = inputs["input_ids"]
        last = torch.full((len(tokens), 1), tokens.shape[1] - 1, device=tokens.device)
        return hidden_states_at(self.causal.model, last, **inputs)[:, 0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Next-token logits (..., vocabulary) of hidden states (..., width), in float32."""
        logits: torch.Tensor = self.causal.lm_head(hidden)
        return logits.float()

    def values(self, hidden: torch.Tensor) -> torch.Tensor:
        """Values (...) of hidden states (..., width)."""
        values: torch.Tensor = self.value_head(hidden.float())
        return values.squeeze(-1)

    def score(
        self, batch: TurnBatch, temperature: float, *, value_head_only: bool = False, learn_entropy: bool = False
    ) -> Scores:
        """Score replies under the present weights.

        If gradients are enabled they flow from log-probabilities and values.

        Args:
            batch: prompts with their replies.
            temperature: at which the replies were drawn.
            value_head_only: whether the gradients of the values stop at the value head.
            learn_entropy: whether gradients flow from the entropy as well, which takes as much memory and time again as
                the logits.
        """
        # Padded on the right, a causal model needs no mask; without one it takes its fastest attention kernel.
        with folded(self.policy):
            before = hidden_states_at(self.causal.model, batch.before_reply, input_ids=batch.tokens)
        log_all = torch.log_softmax(self.logits(before) / temperature, dim=-1)
        logprobs = log_all.gather(-1, batch.replies[..., None]).squeeze(-1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and learn_entropy):
            entropy = -(log_all.exp() * log_all).sum(-1)
        values = self.values(before.detach() if value_head_only else before)
        return Scores(logprobs=logprobs * batch.mask, entropy=entropy * batch.mask, values=values * batch.mask)

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Inside, the adapter is off: the model is the policy that training began from. Without an adapter it fails."""
        assert isinstance(self.policy, PeftModel)
        with self.policy.disable_adapter():
            yield

    def save(self, folder: Path) -> None:
        """Write the adapter, and the value head in a file of its own: servers load the adapter's file alone."""
        assert isinstance(self.policy, PeftModel)
        save_adapter(self.policy, folder)
        save_file(self.value_head.state_dict(), folder / VALUE_HEAD_FILE)

    def load_value_head(self, folder: Path) -> None:
        """Read the value head that `save` wrote."""
        self.value_head.load_state_dict(load_file(folder / VALUE_HEAD_FILE))


@dataclass(frozen=True)
class TurnBatch:
    """Prompts with their replies, padded on the right."""

    tokens: torch.Tensor
    """(turns, longest) prompt and reply."""
    replies: torch.Tensor
    """(turns, longest reply) the reply tokens, 0 where padded."""
    before_reply: torch.Tensor
    """(turns, longest reply) index in `tokens` of the token before each reply token."""
    mask: torch.Tensor
    """(turns, longest reply) 1.0 where there is a reply token."""

    @classmethod
    def of(cls, pairs: list[tuple[list[int], list[int]]], device: torch.device | str = "cpu") -> TurnBatch:
        """Pad pairs of prompt tokens and reply tokens, neither of them empty, on a device."""
        width = max(len(prompt) + len(reply) for prompt, reply in pairs)
        reply_width = max(len(reply) for _, reply in pairs)
        tokens = torch.zeros((len(pairs), width), dtype=torch.long)
        replies = torch.zeros((len(pairs), reply_width), dtype=torch.long)
        before = torch.zeros((len(pairs), reply_width), dtype=torch.long)
        mask = torch.zeros((len(pairs), reply_width))
        for row, (prompt, reply) in enumerate(pairs):
            length = len(prompt) + len(reply)
            tokens[row, :length] = torch.tensor(prompt + reply)
            replies[row, : len(reply)] = torch.tensor(reply)
            before[row, : len(reply)] = torch.arange(len(prompt) - 1, length - 1)
            mask[row, : len(reply)] = 1.0
        return cls(
            tokens=tokens.to(device), replies=replies.to(device), before_reply=before.to(device), mask=mask.to(device)
        )
