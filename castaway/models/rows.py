"""Rows of tokens for one pass of a model: padded, or merged into trees where they begin alike.

The prompts of a batch share their system message, the two answers of a preference pair the whole prompt. In a tree,
what several rows begin with is computed once, forward and backward, and no row is padded. A token of a tree attends to
the tokens on its path from the root, and has the position that it has in its own row, so the hidden states are those of
the rows one by one. Masks of prefix trees: Cai et al. 2024, "Medusa" (arXiv:2401.10774), section 2.1.2, for decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch

from castaway.models.batches import by_tokens

WIDTH = 1
"""Tokens of a tree for each component of a hidden state, unless one row alone is longer. Attention then takes at most a
seventh of the work of a block: 4 n d of 24 d d + 4 n d operations for each token, with n tokens and d components; on a
CPU it is slower than that. Trees of rows with a long common beginning are wider, see `tree_width`."""
WORTHWHILE = 0.8
"""Trees are made if they hold at most this share of the tokens that padded rows would have; they need a mask, and
attention is slower with one."""
NARROWER = (1.02, 1.08, 1.15, 1.25)
"""Widths of trees that are tried, as multiples of the mean that the largest width gives."""
STEP = 32
"""What a large model reads is padded to a multiple of so many tokens. For products in bfloat16, oneDNN compiles code
for each shape that it meets, which takes as long as the product itself: so passes shall have few shapes."""
SMALL = 256
"""Below this hidden size a model is small: padding to `STEP` would cost more than it saves."""

Path = list[int]
"""The indices, in one tree, of the tokens of one row."""


@dataclass(frozen=True)
class Rows:
    """Some rows of tokens as tensors, and the places in them whose hidden states are asked for."""

    tokens: torch.Tensor
    """(lines, width) token ids; a line is a row, or a tree of several rows."""
    sees: torch.Tensor | None
    """(lines, 1, width, width) whether a token attends to another one; None: to all before it."""
    positions: torch.Tensor | None
    """(lines, width) position of each token in its row; None: its column."""
    lines: torch.Tensor
    """(rows, places) the line of each place."""
    columns: torch.Tensor
    """(rows, places) the column of each place; 0 where a row has fewer places than others."""

    @classmethod
    def of(
        cls,
        rows: Sequence[list[int]],
        places: Sequence[Sequence[int]],
        hidden_size: int,
        device: torch.device | str = "cpu",
    ) -> Rows:
        """Lay out rows, none of them empty, on a device.

        Args:
            rows: token ids.
            places: for each row, the indices of the tokens whose hidden states are asked for.
            hidden_size: components of a hidden state of the model; it decides how large trees are.
            device: of the tensors.
        """
        trees = trees_of(rows, hidden_size)
        if not trees:
            tokens, sees, positions = _padded(rows, step_of(hidden_size)), None, None
            lines, columns = list(range(len(rows))), [list(row) for row in places]
        else:
            tokens, sees, positions = as_tensors(trees, step_of(hidden_size))
            found = {row: (line, path) for line, tree in enumerate(trees) for row, path in tree.paths.items()}
            lines = [found[row][0] for row in range(len(rows))]
            columns = [[found[row][1][place] for place in places[row]] for row in range(len(rows))]
        most = max(map(len, columns))
        filled = [[*row, *[0] * (most - len(row))] for row in columns]
        return cls(
            tokens.to(device),
            None if sees is None else sees.to(device),
            None if positions is None else positions.to(device),
            torch.tensor(lines, device=device)[:, None].expand(-1, most),
            torch.tensor(filled, device=device),
        )

    def inputs(self, model: Any) -> dict[str, Any]:
        """The arguments of a transformers decoder, which keeps no keys and values for later."""
        inputs: dict[str, Any] = {"input_ids": self.tokens, "use_cache": False}
        if self.sees is not None and self.positions is not None:
            inputs |= {"position_ids": self.positions, "attention_mask": attention_mask(self.sees, model)}
        return inputs


def attention_mask(sees: torch.Tensor, model: Any) -> torch.Tensor:
    """A mask of what sees what, in the form that the model's attention takes: only SDPA takes Booleans."""
    if model.config._attn_implementation == "sdpa":
        return sees
    return torch.zeros(sees.shape, dtype=model.dtype, device=sees.device).masked_fill(
        ~sees, torch.finfo(model.dtype).min
    )


def _padded(rows: Sequence[list[int]], step: int) -> torch.Tensor:
    # Padded on the right, a causal model needs no mask; without one it takes its fastest attention kernel.
    tokens = torch.zeros((len(rows), _up(max(map(len, rows)), step)), dtype=torch.long)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor(row)
    return tokens


@dataclass(frozen=True)
class Tree:
    """Several rows, with what they begin with only once."""

    tokens: list[int]
    paths: dict[int, Path]
    """Number of a row to where its tokens are."""


def step_of(hidden_size: int) -> int:
    """The number of tokens that a line of a model of this hidden size is padded to a multiple of."""
    return STEP if hidden_size >= SMALL else 1


def in_passes(rows: Sequence[list[int]], budget: int) -> list[list[int]]:
    """Group rows so that a pass of the model has at most `budget` tokens, counted as if they were padded.

    Rows that begin alike come into the same pass.

    Args:
        rows: token ids.
        budget: in tokens.

    Returns:
        The indices of the rows of each group.
    """
    return by_tokens([len(row) for row in rows], budget, sorted(range(len(rows)), key=lambda index: rows[index]))


def trees_of(rows: Sequence[list[int]], hidden_size: int, branches: Sequence[int] | None = None) -> list[Tree]:
    """The trees that a model of this hidden size should read rows as; none if the rows should be padded instead.

    Args:
        rows: token ids, none empty.
        hidden_size: of the model.
        branches: for each row, the largest number of tokens that it may share with others; None: all but the last.
    """
    trees = _alike(rows, tree_width(_common(min(rows), max(rows)), hidden_size), branches)
    return trees if _padded_size(trees) <= WORTHWHILE * len(rows) * max(map(len, rows)) else []


def _alike(rows: Sequence[list[int]], width: int, branches: Sequence[int] | None) -> list[Tree]:
    """Trees of at most `width` tokens, as narrow as their number allows: all are padded to the widest of them."""
    best = merged(rows, width, branches)
    if len(best) > 1:
        mean = sum(len(tree.tokens) for tree in best) / len(best)
        narrower = (int(mean * factor) for factor in NARROWER if mean * factor < width)
        best = min((best, *(merged(rows, one, branches) for one in narrower)), key=_padded_size)
    return best


def _padded_size(trees: Sequence[Tree]) -> int:
    """The tokens of trees that are padded to the widest."""
    return len(trees) * max(len(tree.tokens) for tree in trees)


def tree_width(shared: int, hidden_size: int) -> int:
    """The largest number of tokens of a tree of rows that all begin with the same `shared` tokens.

    A block of a model takes n (24 d^2 + 4 n d) operations for n tokens with d components. In trees of n tokens, s of
    them shared, a row's part of that is in proportion to n (6 d + n) / (n - s): least at n = s + sqrt(s^2 + 6 d s).
    That decides where rows share more than half of a usual tree, as with a game's rules in the system message.
    """
    usual = WIDTH * hidden_size
    if 2 * shared <= usual:
        return usual
    return max(usual, shared + isqrt(shared**2 + 6 * hidden_size * shared))


def as_tensors(trees: Sequence[Tree], step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens (trees, width), what sees what (trees, 1, width, width), and positions (trees, width).

    Args:
        trees: of rows.
        step: the width is padded to a multiple of it.
    """
    width = _up(max(len(tree.tokens) for tree in trees), step)
    tokens = torch.zeros((len(trees), width), dtype=torch.long)
    positions = torch.zeros((len(trees), width), dtype=torch.long)
    # Padding sees itself, since a softmax over nothing is not a number.
    sees = torch.eye(width, dtype=torch.bool).repeat(len(trees), 1, 1)
    for line, tree in enumerate(trees):
        tokens[line, : len(tree.tokens)] = torch.tensor(tree.tokens)
        for path in tree.paths.values():
            columns = torch.tensor(path)
            positions[line, columns] = torch.arange(len(path))
            sees[line, columns[:, None], columns] = torch.ones(len(path), len(path), dtype=torch.bool).tril()
    return tokens, sees[:, None], positions


def _up(tokens: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-tokens // step) * step


def merged(rows: Sequence[list[int]], width: int, branches: Sequence[int] | None = None) -> list[Tree]:
    """Merge rows into as few trees as their alphabetic order gives.

    Args:
        rows: token ids, none empty.
        width: largest number of tokens of a tree; a longer row is a tree of its own.
        branches: for each row, the largest number of tokens that it may share with others; None: all but the last.
    """
    limits = [len(row) - 1 for row in rows] if branches is None else branches
    trees: list[Tree] = []
    before: list[int] = []
    last = -1
    for number in sorted(range(len(rows)), key=lambda number: rows[number]):
        row = rows[number]
        shared = 0
        if trees:
            shared = min(_common(before, row), limits[number], limits[last])
        if not trees or len(trees[-1].tokens) + len(row) - shared > width:
            trees.append(Tree([], {}))
            shared = 0
        tree = trees[-1]
        start = len(tree.tokens)
        tree.tokens.extend(row[shared:])
        tree.paths[number] = [*(tree.paths[last][:shared] if shared else []), *range(start, len(tree.tokens))]
        before, last = row, number
    return trees


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two rows both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
