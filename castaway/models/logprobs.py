"""Log-probabilities of tokens: hidden states at a few places of each row, their logits in chunks, and what they give.

Training needs the hidden states only at the tokens of a reply, scoring only at the last token. Most of a row is the
prompt. In the last block it needs keys and values, but neither residual nor MLP after the attention.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import MoeModelOutputWithPast

from castaway.models.modules import is_checkpointing
from castaway.models.products import float32_head, forward_of

CHUNK = 2**25
"""Most logits in memory at once: without a limit, 128 replies of 256 tokens and 128,000 words would take 17 GB."""
KNOWN_BLOCKS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
"""They compute x + attention(norm(x)), then x + mlp(norm(x)); Granite, with the same attributes, scales residuals."""
BLOCK_ON_CPU, BLOCK_ELSEWHERE = 2**19, 2**25
"""Logits that `token_scores` has in float32 at once: they fit a core's cache; on a GPU, enough to keep it busy."""


def hidden_states_at(decoder: Any, lines: Tensor, columns: Tensor, **inputs: Any) -> Tensor:
    """The final hidden states (..., width) of a transformers decoder at `lines` and `columns`, both (...).

    For unknown kinds of blocks the whole decoder is computed; also with gradient checkpointing, where a block is
    computed again during the backward pass, and must be the same as before.
    """
    block: Any = decoder.layers[-1] if hasattr(decoder, "layers") else None  # GPT-2 calls its own `h`
    again = decoder.training and torch.is_grad_enabled() and is_checkpointing(decoder)
    # FSDP gives a block that it shards a class of its own.
    if type(block).__name__.removeprefix("FSDP") not in KNOWN_BLOCKS or again:
        states: Tensor = decoder(**inputs).last_hidden_state[lines, columns]
        return states

    def forward(hidden_states: Tensor, **settings: Any) -> Tensor:
        attended, _ = block.self_attn(hidden_states=block.input_layernorm(hidden_states), **settings)
        kept = hidden_states[lines, columns] + attended[lines, columns]
        result: Tensor = kept + block.mlp(block.post_attention_layernorm(kept))
        return result

    with forward_of(block, forward):
        states = decoder(**inputs).last_hidden_state
    return states


@dataclass
class _Decoded(MoeModelOutputWithPast):
    """What any decoder gives; Mixtral's head asks for `router_logits`, GPT-2's for this."""

    cross_attentions: None = None


def next_token_logits(causal: Any, hidden: Tensor) -> Tensor:
    """The logits (..., vocabulary) of final hidden states (..., width), as the model makes them, but in float32.

    The model's own forward function makes them: some families scale logits (Granite, Cohere) or cap them (Gemma 2).
    """
    decoder = causal.get_decoder()
    rows = hidden.reshape(1, -1, hidden.shape[-1])
    tokens = rows.new_zeros(rows.shape[:2], dtype=torch.long)
    with forward_of(decoder, lambda *_, **__: _Decoded(last_hidden_state=rows)), float32_head(causal):
        logits: Tensor = causal(input_ids=tokens, use_cache=False).logits
    return logits.reshape(*hidden.shape[:-1], logits.shape[-1])


Scores = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Of hidden states (n, width) and tokens (n): two numbers for each."""


def by_chunks(causal: Any, scores: Scores, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """What `scores` gives for tokens (n) after hidden states (n, width).

    With several chunks, the backward pass computes the logits of each again, so that they are never all in memory.
    """
    size = max(1, CHUNK // causal.config.get_text_config().vocab_size)
    if len(tokens) <= size:
        return scores(hidden, tokens)
    pairs = zip(hidden.split(size), tokens.split(size), strict=True)
    if torch.is_grad_enabled():
        chunks = [checkpoint(scores, *pair, use_reentrant=False) for pair in pairs]
    else:
        chunks = [scores(*pair) for pair in pairs]
    first, second = zip(*chunks, strict=True)
    return torch.cat(first), torch.cat(second)


def label_losses(causal: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """-log p of each label of a batch (n), in nats, and whether it was the likeliest token (n); and a balance loss ().

    With `lengths` (lines) among the inputs, how many tokens each line has before its padding, the last is the one that
    a mixture of experts has of its class; else it is 0.
    """
    lines, columns = (inputs["labels"] != -100).nonzero(as_tuple=True)
    rows = {name: value for name, value in inputs.items() if name not in ("labels", "lengths")}
    if "lengths" in inputs:
        decoded = causal.get_decoder()(**rows, use_cache=False, output_router_logits=True)
        before = decoded.last_hidden_state[lines, columns - 1]
        balance = _balance_loss(causal, decoded, inputs["lengths"])
    else:
        before = hidden_states_at(causal.get_decoder(), lines, columns - 1, **rows, use_cache=False)
        balance = before.new_zeros(())

    def losses(hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        logits = next_token_logits(causal, hidden)
        right = logits.detach().argmax(-1) == tokens
        if causal.dtype is torch.float32:
            return cross_entropy(logits, tokens, reduction="none"), right
        return -token_scores(logits, tokens)[0], right

    return *by_chunks(causal, losses, before, inputs["labels"][lines, columns]), balance


def _balance_loss(causal: Any, decoded: Any, lengths: Tensor) -> Tensor:
    """The auxiliary loss () of a mixture of experts for what its decoder gave, as its class works it out.

    Fedus et al. 2021, "Switch Transformers", arXiv:2101.03961, equations 4-6: it is least where all experts are used
    alike. Padding does not count.
    """
    columns = torch.arange(decoded.last_hidden_state.shape[1], device=lengths.device)
    mask, first = (columns < lengths[:, None]).long(), decoded.last_hidden_state[:1, :1]
    given = _Decoded(last_hidden_state=first, router_logits=decoded.router_logits)
    with forward_of(causal.get_decoder(), lambda *_, **__: given):
        found = causal(input_ids=mask[:1, :1], attention_mask=mask, use_cache=False, output_router_logits=True)
    loss: Tensor = found.aux_loss
    return loss


def token_scores(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities (n) of tokens (n) and entropies (n) from logits (n, vocabulary): in nats, in float32.

    Gradients flow from the log-probabilities only. Each block of rows is brought to float32 by itself, forward and
    backward: a log-softmax of all would be as large as the logits, and so would its gradient. What is kept are the
    logits as they came and one number a row, the logarithm L of the softmax's denominator:

        log p = z - L    dlogits = dlog_p (onehot - exp(z - L)) / temperature    where z = logits / temperature
    """
    scores: tuple[Tensor, Tensor] = _TokenScores.apply(logits, tokens, temperature)
    return scores


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
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
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens, log_sums = ctx.saved_tensors
        to_logits = torch.empty_like(logits)
        for rows in _blocks(logits):
            share = (gradients[0][rows] / ctx.temperature)[:, None]
            slopes = _scaled(logits[rows], ctx.temperature).sub_(log_sums[rows, None]).exp_().mul_(-share)
            to_logits[rows] = slopes.scatter_add_(-1, tokens[rows, None], share)
        return to_logits, None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """Logits divided by the temperature, in float32 and in memory of their own."""
    copy = logits.to(torch.float32, copy=True)
    return copy if temperature == 1.0 else copy.div_(temperature)


def _blocks(logits: Tensor) -> Iterator[slice]:
    size = max(1, (BLOCK_ON_CPU if logits.is_cpu else BLOCK_ELSEWHERE) // logits.shape[-1])
    for start in range(0, len(logits), size):
        yield slice(start, start + size)
