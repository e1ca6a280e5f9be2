"""The student: a language model with an adapter, and a value head on the same trunk.

The reference policy is the same model with the adapter switched off, so no second copy is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from castaway.models.folded import folded
from castaway.models.logprobs import by_chunks, hidden_states_at, next_token_logits, token_scores
from castaway.models.modules import is_checkpointing, modules_of
from castaway.models.policy import save_adapter, using
from castaway.models.products import use_for_head
from castaway.models.rows import Rows, window_of

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
        use_for_head(self.causal)
        width, self.window = self.hidden_size, window_of(self.causal)
        self.value_head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        final: Any = self.value_head[2]
        nn.init.zeros_(final.weight)
        nn.init.zeros_(final.bias)

    @property
    def causal(self) -> Any:
        """The language model itself; an adapter lives inside its layers."""
        return self.policy.get_base_model() if isinstance(self.policy, PeftModel) else self.policy

    @property
    def hidden_size(self) -> int:
        """Components of a hidden state."""
        size: int = self.causal.config.get_text_config().hidden_size
        return size

    def batch(self, pairs: list[tuple[list[int], list[int]]]) -> TurnBatch:
        """Pairs of prompt tokens and reply tokens, neither of them empty, on the device of the model."""
        return TurnBatch.of(pairs, self.hidden_size, self.causal.device, self.window)

    def last_hidden_state(self, **inputs: Any) -> torch.Tensor:
        """(rows, width) the final hidden states of the last tokens of rows that are padded on the left."""
        tokens: torch.Tensor = inputs["input_ids"]
        lines = torch.arange(len(tokens), device=tokens.device)
        if not self.window:  # ALiBi counts by the mask, and RoPE minds distances alone
            inputs.pop("position_ids", None)
        return hidden_states_at(self.causal.get_decoder(), lines, torch.full_like(lines, tokens.shape[1] - 1), **inputs)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Next-token logits (..., vocabulary) of hidden states (..., width), in float32."""
        return next_token_logits(self.causal, hidden)

    def values(self, hidden: torch.Tensor) -> torch.Tensor:
        """Values (...) of hidden states (..., width)."""
        values: torch.Tensor = self.value_head(hidden.float())
        return values.squeeze(-1)

    def score(
        self, batch: TurnBatch, temperature: float, *, value_head_only: bool = False, learn_entropy: bool = False
    ) -> Scores:
        """Score replies under the present weights, with gradients of log-probabilities and values if enabled.

        Args:
            batch: prompts with their replies.
            temperature: at which the replies were drawn.
            value_head_only: whether the gradients of the values stop at the value head.
            learn_entropy: whether gradients flow from the entropy too, which takes as much memory and time again.
        """
        decoder, rows = self.causal.get_decoder(), batch.rows
        with folded(self.policy), self._checkpointing():
            before = hidden_states_at(decoder, rows.lines, rows.columns, **rows.inputs(self.causal))
        real = batch.mask.bool()
        logprobs, entropy = self._token_scores(before[real], batch.replies[real], temperature, learn_entropy)
        values = self.values(before.detach() if value_head_only else before)
        return Scores(
            logprobs=torch.zeros_like(values).masked_scatter(real, logprobs),
            entropy=torch.zeros_like(values).masked_scatter(real, entropy),
            values=values * batch.mask,
        )

    @contextmanager
    def _checkpointing(self) -> Iterator[None]:
        """Context in which gradient checkpointing, if the model has it on, is in effect.

        The models of transformers do it in training mode only, and keep no keys and values then, which sampling needs.
        What is in a layer stays as it was: in training mode it would drop out, and sampling did not.
        """
        on = torch.is_grad_enabled() and is_checkpointing(self.causal)
        layers = [one for one in (modules_of(self.causal) if on else ()) if isinstance(one, GradientCheckpointingLayer)]
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False

    def _token_scores(
        self, hidden: torch.Tensor, tokens: torch.Tensor, temperature: float, learn_entropy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities of tokens (n) after hidden states (n, width), and entropies (n)."""

        def scores(hidden: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            logits = next_token_logits(self.causal, hidden)
            if self.causal.dtype is not torch.float32 and not learn_entropy:
                return token_scores(logits, tokens, temperature)
            log_all = torch.log_softmax(logits / temperature, dim=-1)
            with torch.set_grad_enabled(torch.is_grad_enabled() and learn_entropy):
                entropy = -(log_all.exp() * log_all).sum(-1)
            return log_all.gather(-1, tokens[:, None]).squeeze(-1), entropy

        return by_chunks(self.causal, scores, hidden, tokens)

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Inside, the adapter is off: the model is the policy that training began from. Without an adapter it fails."""
        assert isinstance(self.policy, PeftModel)
        with using(self.policy, None):
            yield

    def save(self, folder: Path) -> None:
        """Write the adapter, and the value head in a file of its own: servers load the adapter's file alone."""
        assert isinstance(self.policy, PeftModel)
        save_adapter(self.policy, folder)
        save_file(self.value_head.state_dict(), folder / VALUE_HEAD_FILE)


@dataclass(frozen=True)
class TurnBatch:
    """Prompts with their replies."""

    rows: Rows
    """Prompts and replies; the places asked for are the tokens before each reply token."""
    replies: torch.Tensor
    """(turns, longest reply) the reply tokens, 0 where padded."""
    mask: torch.Tensor
    """(turns, longest reply) 1.0 where there is a reply token."""

    @classmethod
    def of(
        cls,
        pairs: list[tuple[list[int], list[int]]],
        hidden_size: int,
        device: torch.device | str = "cpu",
        window: float = inf,
    ) -> TurnBatch:
        """Lay out pairs of prompt tokens and reply tokens, neither of them empty; see `Rows.of`."""
        replies = pad_sequence([torch.tensor(reply) for _, reply in pairs], batch_first=True)
        mask = pad_sequence([torch.ones(len(reply)) for _, reply in pairs], batch_first=True)
        before = [range(len(prompt) - 1, len(prompt) + len(reply) - 1) for prompt, reply in pairs]
        rows = Rows.of([prompt + reply for prompt, reply in pairs], before, hidden_size, device, window)
        return cls(rows=rows, replies=replies.to(device), mask=mask.to(device))
