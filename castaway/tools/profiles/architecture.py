"""The sizes of a decoder, from which its memory and its work follow: of a tiny model, a built one, or a known one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.config.bases import Base, BaseTextParams, PathParams
from castaway.config.params import Params
from castaway.datasets.pretraining import task_words


@dataclass(frozen=True)
class Architecture:
    """A decoder of the Llama kind: attention with grouped keys and values, and a gated MLP."""

    layers: int
    hidden: int
    """Components of a hidden state."""
    intermediate: int
    """Components between the layers of the MLP."""
    heads: int
    key_value_heads: int
    head: int
    """Components of a head."""
    vocabulary: int
    tied: bool
    """Whether the LM head uses the weights of the embedding."""

    @property
    def queries(self) -> int:
        """Components of the queries of all heads together."""
        return self.heads * self.head

    @property
    def keys(self) -> int:
        """Components of the keys, or of the values, of all heads together."""
        return self.key_value_heads * self.head

    @property
    def linear(self) -> int:
        """Weights in linear layers, without the head: those that an adapter is put on."""
        attention = 2 * self.hidden * (self.queries + self.keys)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def parameters(self) -> int:
        """All weights, tied ones once; biases, a fraction of a per mille, are left out."""
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return self.linear + embeddings + (2 * self.layers + 1) * self.hidden

    def adapter(self, rank: int) -> int:
        """Weights of a LoRA adapter on all linear layers."""
        attention = 2 * (self.hidden + self.queries) + 2 * (self.hidden + self.keys)
        return self.layers * rank * (attention + 3 * (self.hidden + self.intermediate))

    @classmethod
    def read(cls, config: Path) -> Architecture:
        """The sizes in a config.json of transformers."""
        found: dict[str, Any] = json.loads(config.read_text("utf-8"))
        heads, hidden = found["num_attention_heads"], found["hidden_size"]
        return cls(
            layers=found["num_hidden_layers"],
            hidden=hidden,
            intermediate=found["intermediate_size"],
            heads=heads,
            key_value_heads=found.get("num_key_value_heads") or heads,
            head=found.get("head_dim") or hidden // heads,
            vocabulary=found["vocab_size"],
            tied=bool(found.get("tie_word_embeddings")),
        )


KNOWN = {
    "smollm2-135m": Architecture(30, 576, 1536, 9, 3, 64, 49152, True),
    "qwen2.5-0.5b": Architecture(24, 896, 4864, 14, 2, 64, 151936, True),
    "qwen2.5-1.5b": Architecture(28, 1536, 8960, 12, 2, 128, 151936, True),
    "qwen2.5-3b": Architecture(36, 2048, 11008, 16, 2, 128, 151936, True),
    "llama-3.1-8b": Architecture(32, 4096, 14336, 32, 8, 128, 128256, False),
}
"""Sizes of models by a part of their names, from their config.json."""


def architecture_of(params: Params, name: str, root: Path) -> Architecture | None:
    """The sizes of a base model; None if it is neither tiny nor built nor known.

    Args:
        params: with the block of the base model.
        name: of the block under `bases`.
        root: the repository, in which the model may have been built.
    """
    block: Base = params.bases[name]
    if isinstance(block, BaseTextParams):
        tiny = params.base
        words = len(task_words(block)) if block.whole_words else 0
        head = tiny.hidden_size // tiny.heads
        width = tiny.hidden_size
        return Architecture(tiny.layers, width, 3 * width, tiny.heads, tiny.heads, head, tiny.vocabulary + words, True)
    places = [root / "data" / name / "base", *([root / block.path] if isinstance(block, PathParams) else [])]
    for place in places:
        if (place / "config.json").is_file():
            return Architecture.read(place / "config.json")
    told = f"{block.origin} {getattr(block, 'file', '')}".lower()
    return next((sizes for part, sizes in KNOWN.items() if part in told), None)
