"""The peak memory of a pass through a model, in bytes, from its sizes: weights, activations, logits, cache.

The formulas follow what the code of the stages keeps. `python -m benchmarks.memory` compares them with measured peaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from castaway.models.hidden_states import CHUNK
from castaway.models.rows import NARROWER, WORTHWHILE, tree_width
from castaway.tools.profiles.architecture import Architecture

FULL = 4
"""Bytes of a float32 number: adapters, their gradients and the optimiser are in float32 in any case."""
TRAINED = 4 * FULL
"""Bytes of a trained weight: itself, its gradient, and the two moments of Adam."""
NF4 = 0.516
"""Bytes of a weight in NF4: 4 bits, and 0.127 for the scales of blocks of 64, which are in 8 bits themselves."""
LEFT = 3.5
"""Hidden states per token and block, in float32, that the allocator of a CPU's memory does not give back between the
blocks of a checkpointed pass: a fit to three measurements, with 6 and 30 layers."""
LOGITS = 4
"""Copies of a chunk of logits: the logits, divided by the temperature, their logarithms, and products of these."""


@dataclass(frozen=True)
class Trunk:
    """A base model as the stages hold it."""

    sizes: Architecture
    bytes: int
    """Of a number in a layer's inputs and outputs: 4 in float32, otherwise 2."""
    checkpointing: bool
    on_gpu: bool = False
    four_bit: bool = False
    """Whether the linear layers are held in 4 bits."""

    @property
    def weights(self) -> int:
        """Of the model; in 4 bits also one layer that is brought to 16 at a time."""
        if self.four_bit:
            one = self.sizes
            return round(self.bytes * (one.parameters - one.linear + one.hidden * one.intermediate) + NF4 * one.linear)
        return self.bytes * self.sizes.parameters

    @property
    def loading(self) -> int:
        """While the weights are read and an adapter is merged into them. Those of the file, in bfloat16, are mapped."""
        return (FULL + 2) * self.sizes.parameters if self.bytes == FULL else self.weights + 2 * self.sizes.linear

    def folded(self, training: bool) -> int:
        """The second copy of the linear layers that adapters are folded into: only in float32."""
        return self.bytes * self.sizes.linear if self.bytes == FULL and not (training and self.checkpointing) else 0

    def trained(self, rank: int) -> int:
        """An adapter in training."""
        return TRAINED * self.sizes.adapter(rank)

    def activations(self, tokens: int) -> int:
        """What the forward pass keeps for the backward pass.

        Of a block: the inputs of its norms, products and attention. Norms compute in float32. With checkpointing only
        one block is kept whole, and of the others the input; PEFT's own layers, which compute then and in 4 bits, keep
        their inputs in float32.
        """
        one = self.sizes
        block = self.bytes * (8 * one.hidden + 2 * one.keys + 4 * one.intermediate)
        if self.bytes < FULL:
            block += FULL * 2 * one.hidden
        if self.bytes < FULL and (self.checkpointing or self.four_bit):
            block += FULL * (5 * one.hidden + one.queries + one.intermediate)
        if not self.checkpointing:
            return tokens * one.layers * block
        left = 0 if self.on_gpu else round(FULL * LEFT * one.hidden)
        return tokens * (one.layers * (self.bytes * one.hidden + left) + 2 * block)

    def transient(self, tokens: int) -> int:
        """What a block takes while it is computed, if nothing is kept."""
        return tokens * self.bytes * (4 * self.sizes.hidden + 3 * self.sizes.intermediate)

    def cache(self, tokens: int) -> int:
        """Keys and values of so many tokens; they are copied when a token is added."""
        return 2 * tokens * self.bytes * 2 * self.sizes.keys * self.sizes.layers

    def chunk(self, places: int) -> int:
        """Logits, of which at most `CHUNK` are in memory; below float32 only they and their gradient."""
        copies = LOGITS * FULL if self.bytes == FULL else 2 * self.bytes
        return copies * min(places * self.sizes.vocabulary, max(CHUNK, self.sizes.vocabulary))


def laid_out(rows: int, shared: int, longest: int, hidden: int) -> int:
    """Tokens of a pass over rows that begin alike: padded, or as trees where that is worthwhile.

    As `castaway.models.rows` does it.

    Args:
        rows: their number.
        shared: tokens that all begin with.
        longest: tokens of the longest row.
        hidden: the model's hidden size, which decides how large a tree is.
    """
    padded = rows * longest
    own = max(1, longest - shared)
    width = tree_width(shared, hidden)
    mean = shared + rows * own / _trees(rows, shared, own, width)[0]
    widths = [width, *(int(mean * factor) for factor in NARROWER if mean * factor < width)]
    merged = min(_trees(rows, shared, own, one)[1] for one in widths)
    return merged if merged <= WORTHWHILE * padded else padded


def _trees(rows: int, shared: int, own: int, width: int) -> tuple[int, int]:
    """The number of trees of at most `width` tokens, and their tokens, all padded to the widest."""
    most = max(1, (width - shared) // own)
    trees = -(-rows // most)
    return trees, trees * (shared + min(rows, most) * own)


def learning(trunk: Trunk, tokens: int, rank: int, head: int) -> int:
    """A forward and backward pass with an adapter that is trained.

    Args:
        trunk: the model.
        tokens: of the pass.
        rank: of the adapter.
        head: bytes of what follows the trunk: logits, or a value head.
    """
    kept = trunk.activations(tokens) + trunk.transient(tokens)
    return trunk.weights + trunk.folded(training=True) + trunk.trained(rank) + kept + head


def reading(trunk: Trunk, tokens: int, places: int) -> int:
    """A forward pass without gradients."""
    return trunk.weights + trunk.folded(training=False) + trunk.transient(tokens) + trunk.chunk(places)


def drawing(trunk: Trunk, rows: int, tokens: int, read: int) -> int:
    """Sampling, with keys and values kept.

    Args:
        trunk: the model.
        rows: side by side.
        tokens: of prompts and replies together.
        read: tokens of the prompts that are read at once.
    """
    logits = rows * trunk.sizes.vocabulary * (3 * FULL + 8)
    return trunk.weights + trunk.folded(training=False) + trunk.cache(tokens) + trunk.transient(read) + logits
