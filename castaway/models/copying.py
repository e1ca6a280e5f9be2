"""A tiny model that begins able to copy: the attention that larger models find for themselves, laid down beforehand.

After a word that stood earlier in the text, the next word is likely to be the one that followed it then. Models find
the two heads that see this, the induction heads of Olsson et al. 2022 (arXiv 2209.11895), after long training; at a
million parameters and a few hundred steps they do not. Here

- the first head of the first layer looks at the token before, and notes in one part of the residual stream what it was;
- the first head of the second layer looks for tokens whose note equals the token that looks, and says what it finds;
- all other heads begin by looking for equal tokens (keys begin as the queries, and the output as the values' transpose:
  mimetic initialisation, Trockman and Kolter 2023, arXiv 2305.09828), faintly.

Everything can be learned away.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaForCausalLM

SCALE = 8.0
"""Embeddings are that much larger than drawn, and the last norm as much smaller: what a token is must not drown in what
the layers add to it."""
CONSTANT = SCALE / 2
"""What every embedding has in its first place. Tokens begin at random and have nothing else in common that a head could
look for wherever it is. It adds the same to all logits."""
FOCUS, PAIRS = 6.0, 4
"""How sharply the first head looks at the token before, and over how many of the fast pairs of rotary positions."""
NOTED, MATCH, SAID = SCALE / 5, 2.0, SCALE
"""Sizes of the note, of the search for it, and of what the second head says."""
OTHERS, PERCEPTRONS, FIRST_PERCEPTRON = 0.3, 0.3, 0.1
"""Sizes of what the other heads and the perceptrons add at first, beside those that are drawn."""


@torch.no_grad()
def begin_with_copying(model: LlamaForCausalLM) -> None:
    """Lay the heads down in a model with two layers or more, whose width is at least four heads'."""
    width, heads = model.config.hidden_size, model.config.num_attention_heads
    size = width // heads
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        attention.o_proj.weight.copy_(OTHERS * attention.v_proj.weight.T)
        layer.mlp.down_proj.weight.mul_(PERCEPTRONS if number else FIRST_PERCEPTRON)
    model.model.embed_tokens.weight.mul_(SCALE)[:, 0] = CONSTANT
    model.model.norm.weight.fill_(1 / SCALE)
    # Parts of the residual stream, one head wide each: what is noted, where the note stands, what is said.
    own, note, said = (slice(start, start + size) for start in (1, 1 + size, 1 + 2 * size))

    before = model.model.layers[0].self_attn
    query, key = _one_before(
        size, model.model.rotary_emb.inv_freq, CONSTANT * (width / (SCALE**2 + CONSTANT**2)) ** 0.5
    )
    _first(before, size, own, note, NOTED)
    before.q_proj.weight[:size, 0], before.k_proj.weight[:size, 0] = query, key

    induction = model.model.layers[1].self_attn
    slow = (torch.arange(size) % (size // 2) >= size // 4).float()[:, None]
    _first(induction, size, said, said, SAID)
    induction.q_proj.weight[:size, own] = MATCH * slow * torch.eye(size)
    induction.k_proj.weight[:size, note] = MATCH * slow * torch.eye(size)


def _first(attention: Any, size: int, read: slice, written: slice, amount: float) -> None:
    """Let the first head see nothing, and carry one part of the residual stream to another."""
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[:size] = 0.0
    attention.v_proj.weight[:size, read] = torch.eye(size)
    attention.o_proj.weight[:, :size] = 0.0
    attention.o_proj.weight[written, :size] = amount * torch.eye(size)


def _one_before(size: int, frequencies: torch.Tensor, constant: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key, by the constant alone, that meet best one position apart.

    With rotary positions the product of a pair of places is `a^2 cos((n - m + 1) f)` for the query at m and the key at
    n, if the key is the query turned by one position.
    """
    half, amplitude = size // 2, (FOCUS * size**0.5) ** 0.5 / constant
    query, key = torch.zeros(size), torch.zeros(size)
    query[:PAIRS] = amplitude
    key[:PAIRS] = amplitude * torch.cos(frequencies[:PAIRS])
    key[half : half + PAIRS] = amplitude * torch.sin(frequencies[:PAIRS])
    return query, key
