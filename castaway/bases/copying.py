"""Initialises the tiny model with induction heads, so that it can copy from its prompt from the start.

If a word has occurred before, the word that followed it then is likely to follow again. Larger models learn two
attention heads that use this, the induction heads of Olsson et al. 2022 (arXiv 2209.11895). A model of a million
parameters does not learn them within a few hundred steps, so here they are set:

- the first head of the first layer attends to the previous token, and writes it into one part of the residual stream
  (the note);
- the first head of the second layer attends to tokens whose note equals the current token, and copies the token there,
  so that it is predicted next;
- all other heads attend weakly to equal tokens: keys start equal to queries, and the output projection as the
  transpose of the values' (mimetic initialisation, Trockman and Kolter 2023, arXiv 2305.09828).

This is only the initialisation: all weights are trained.
"""

from typing import Any

import torch
from transformers import LlamaForCausalLM

SCALE = 8.0
"""Factor on the embeddings; the last norm is divided by it. The embedding of a token must stay large in comparison with
what the layers add to it."""
CONSTANT = SCALE / 2
"""The first component of every embedding. Embeddings start at random; this is the only thing that they have in common,
and so the only thing that a head can use at every token. It adds the same to all logits."""
FOCUS, PAIRS = 6.0, 4
"""Attention logit of the first head for the previous token, from each pair of rotary dimensions; and how many pairs,
the fastest ones, it uses."""
NOTED, MATCH, SAID = SCALE / 5, 2.0, SCALE
"""Factors on the note, on the query and key that search for it, and on the output of the second head."""
OTHERS, PERCEPTRONS, FIRST_PERCEPTRON = 0.3, 0.3, 0.1
"""Factors on the initial outputs of all other heads, of the MLPs, and of the first layer's MLP."""


@torch.no_grad()
def begin_with_copying(model: LlamaForCausalLM) -> None:
    """Set the heads, in place, in a model with at least two layers and at least four heads."""
    width, heads = model.config.hidden_size, model.config.num_attention_heads
    size = width // heads
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        attention.o_proj.weight.copy_(OTHERS * attention.v_proj.weight.T)
        layer.mlp.down_proj.weight.mul_(PERCEPTRONS if number else FIRST_PERCEPTRON)
    model.model.embed_tokens.weight.mul_(SCALE)[:, 0] = CONSTANT
    model.model.norm.weight.fill_(1 / SCALE)
    # Three parts of the residual stream, each as wide as a head: the part of a token that is copied into the note, the
    # place of the note, and the part that the second head copies. Component 0 holds the constant.
    own, note, said = (slice(start, start + size) for start in (1, 1 + size, 1 + 2 * size))

    before = model.model.layers[0].self_attn
    # The constant after the layer's RMS norm, for an embedding of the expected length.
    constant = CONSTANT * (width / (SCALE**2 + CONSTANT**2)) ** 0.5
    query, key = _one_before(size, model.model.rotary_emb.inv_freq, constant)
    _first(before, size, own, note, NOTED)
    before.q_proj.weight[:size, 0], before.k_proj.weight[:size, 0] = query, key

    induction = model.model.layers[1].self_attn
    # Only the slower half of the rotary dimensions: the search for an equal token should hardly depend on the distance.
    slow = (torch.arange(size) % (size // 2) >= size // 4).float()[:, None]
    _first(induction, size, said, said, SAID)
    induction.q_proj.weight[:size, own] = MATCH * slow * torch.eye(size)
    induction.k_proj.weight[:size, note] = MATCH * slow * torch.eye(size)


def _first(attention: Any, size: int, read: slice, written: slice, amount: float) -> None:
    """Make the first head copy the slice `read` of the residual stream to the slice `written`, times `amount`.

    Query and key are set to zero, so that the head attends to all tokens equally until the caller sets them.
    """
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[:size] = 0.0
    attention.v_proj.weight[:size, read] = torch.eye(size)
    attention.o_proj.weight[:, :size] = 0.0
    attention.o_proj.weight[written, :size] = amount * torch.eye(size)


def _one_before(size: int, frequencies: torch.Tensor, constant: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of query and key for the constant component, whose product is largest for the previous token.

    The key is the query rotated by one position. With rotary position embeddings, a pair of dimensions of frequency f
    (`frequencies`, fastest first) then contributes `a^2 cos((n - m + 1) f)` for the query at position m and the key at
    n, which is largest at n = m - 1. `constant` is the component's value there. Two vectors of `size` components.
    """
    half, amplitude = size // 2, (FOCUS * size**0.5) ** 0.5 / constant
    query, key = torch.zeros(size), torch.zeros(size)
    query[:PAIRS] = amplitude
    key[:PAIRS] = amplitude * torch.cos(frequencies[:PAIRS])
    key[half : half + PAIRS] = amplitude * torch.sin(frequencies[:PAIRS])
    return query, key
