"""Rows of tokens grouped into passes of a model, and laid out for one: padded, or merged into trees.

The prompts of a batch share their system message, the two answers of a preference pair the whole prompt. In a tree,
what several rows begin with is computed once, forward and backward, and no row is padded. A token of a tree attends to
the tokens on its path from the root, and has the position that it has in its own row, so the hidden states are those of
the rows one by one. Masks of prefix trees: Cai et al. 2024, "Medusa" (arXiv:2401.10774), section 2.1.2, for decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from math import inf, isqrt
from typing import Any, NamedTuple, Self

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

WORTHWHILE = 0.8
"""Trees are made if they hold at most this share of the tokens of padded rows: with a mask attention is slower."""
NARROWER = (1.02, 1.08, 1.15, 1.25)  # widths of trees that are tried, times the mean at the largest width
STEP = 32  # a large model's rows are padded to a multiple of it: oneDNN compiles code for each shape in bfloat16
SMALL = 256  # below this hidden size a model is small: padding to `STEP` would cost more than it saves
ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}  # layers that read a tree as its rows
OPEN_BINS = 50
"""The newest bins, which are tried before a new one is opened: more would take longer and fill little better."""


@dataclass(frozen=True)
class Rows:
    """Some rows of tokens as tensors, and the places in them whose hidden states are asked for."""

    tokens: torch.Tensor  # (lines, width) token ids; a line is a row, or a tree of several rows
    sees: torch.Tensor | None  # (lines, 1, width, width) whether a token attends to another one; None: to all before it
    positions: torch.Tensor | None  # (lines, width) position of each token in its row; None: its column
    lines: torch.Tensor  # (rows, places) the line of each place
    columns: torch.Tensor  # (rows, places) the column of each place; 0 where a row has fewer places than others

    @classmethod
    def of(
        cls,
        rows: Sequence[list[int]],
        places: Sequence[Sequence[int]],
        hidden_size: int,
        device: torch.device | str = "cpu",
        window: float = inf,
    ) -> Self:
        """Lay out rows of token ids, none of them empty, on a device.

        `places` are, for each row, the indices of the tokens whose hidden states are asked for. The model's
        `hidden_size` decides how large trees are, and its `window` whether there may be any, see `window_of`.
        """
        sees = positions = None
        if trees := trees_of(rows, hidden_size, window=window):
            tokens, ends, positions = (tensor.to(device) for tensor in as_tensors(trees, step_of(hidden_size)))
            sees = visible(ends)
            located = {row: (line, path) for line, tree in enumerate(trees) for row, path in tree.paths.items()}
            lines = [located[row][0] for row in range(len(rows))]
            columns = [[located[row][1][place] for place in places[row]] for row in range(len(rows))]
        else:
            # Padded on the right, a causal model needs no mask; without one it takes its fastest attention kernel.
            tokens = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
            tokens = pad(tokens, (0, -tokens.shape[1] % step_of(hidden_size))).to(device)
            lines, columns = list(range(len(rows))), [list(row) for row in places]
        filled = pad_sequence([torch.tensor(row, dtype=torch.long) for row in columns], batch_first=True).to(device)
        return cls(tokens, sees, positions, torch.tensor(lines, device=device)[:, None].expand_as(filled), filled)

    def inputs(self, model: Any) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": self.tokens, "use_cache": False}
        if self.sees is not None and self.positions is not None:
            inputs |= {"position_ids": self.positions, "attention_mask": attention_mask(self.sees, model)}
        return inputs


def attention_mask(sees: torch.Tensor, model: Any) -> torch.Tensor:
    """A mask of what sees what, in the form that the model's attention takes: only SDPA takes Booleans."""
    if model.config._attn_implementation == "sdpa":
        return sees
    mask = torch.zeros(sees.shape, dtype=model.dtype, device=sees.device)
    return mask.masked_fill(~sees, torch.finfo(model.dtype).min)


def step_of(hidden_size: int) -> int:
    return STEP if hidden_size >= SMALL else 1


class Tree(NamedTuple):
    """Several rows, with what they begin with only once."""

    tokens: list[int]
    paths: dict[int, list[int]]  # number of a row to the indices of its tokens


def window_of(model: Any) -> float:
    """How many tokens every layer of a model of transformers attends to at least.

    Rows of at most that many tokens are read as under full attention. It is 0 if a layer carries a state along, or if
    positions cannot be given. Windows have different names: `sliding_window` in Mistral and Gemma, `window_size` in
    GPT-Neo, `attention_chunk_size` in Llama 4.
    """
    config = model.config.get_text_config()
    layers, takes = set(getattr(config, "layer_types", None) or ()), signature(model.get_decoder().forward).parameters
    if getattr(model, "_is_stateful", False) or layers - ATTENTION or "position_ids" not in takes:
        return 0
    settings = config.to_dict().items()
    named = [value for name, value in settings if name.endswith(("window", "window_size", "attention_chunk_size"))]
    return min((value for value in named if type(value) is int and value > 0), default=inf)


def trees_of(
    rows: Sequence[list[int]], hidden_size: int, branches: Sequence[int] | None = None, window: float = inf
) -> list[Tree]:
    """The trees that a model of this hidden size should read rows as; none if they should be padded. See `merged`.

    A tree has a mask of its own, in which there is no window: no row may be longer than that.
    """
    if max(map(len, rows)) > window:
        return []
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
    return len(trees) * max(len(tree.tokens) for tree in trees)


def tree_width(shared: int, hidden_size: int) -> int:
    """The largest number of tokens of a tree of rows that all begin with the same `shared` tokens.

    Usually one token for each of the d components of a hidden state: attention then takes at most a seventh of the work
    of a block, which is n (24 d^2 + 4 n d) operations for n tokens; on a CPU it is slower than that. In trees of n
    tokens, s of them shared, a row's part of that work is in proportion to n (6 d + n) / (n - s): least at
    n = s + sqrt(s^2 + 6 d s). That decides where rows share more than half of a usual tree, as with a game's rules in
    the system message.
    """
    if 2 * shared <= hidden_size:
        return hidden_size
    return max(hidden_size, shared + isqrt(shared**2 + 6 * hidden_size * shared))


def as_tensors(trees: Sequence[Tree], step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, where the branches of each end, and positions, all (trees, width); see `visible` and `STEP`."""
    width = -(-max(len(tree.tokens) for tree in trees) // step) * step
    tokens = torch.zeros((len(trees), width), dtype=torch.long)
    positions = torch.zeros((len(trees), width), dtype=torch.long)
    # Padding sees itself, since a softmax over nothing is not a number.
    ends = torch.arange(1, width + 1).repeat(len(trees), 1)
    for line, tree in enumerate(trees):
        tokens[line, : len(tree.tokens)] = torch.tensor(tree.tokens)
        for path in tree.paths.values():
            columns = torch.tensor(path)
            positions[line, columns] = torch.arange(len(path))
            ends[line, columns] = path[-1] + 1  # of the last row that a token begins
    return tokens, ends, positions


def visible(ends: torch.Tensor) -> torch.Tensor:
    """Whether a token attends to another one (trees, 1, width, width), from where the branches of each end.

    The tokens of a tree stand in depth-first order: all that follow a token, up to its end, have it on their path.
    """
    columns = torch.arange(ends.shape[1], device=ends.device)
    sees = columns[:, None] < ends[:, None, :]
    return sees.logical_and_(columns <= columns[:, None])[:, None]  # in place: at 9,000 tokens a mask has 180 MB


def merged(rows: Sequence[list[int]], width: int, branches: Sequence[int] | None = None) -> list[Tree]:
    """Merge rows into as few trees of at most `width` tokens as their alphabetic order gives.

    A longer row is a tree of its own. `branches` are the largest numbers of tokens that the rows may share with others;
    None: all but the last.
    """
    limits = [len(row) - 1 for row in rows] if branches is None else branches
    trees, last = list[Tree](), 0
    for number in sorted(range(len(rows)), key=lambda number: rows[number]):
        row, shared = rows[number], 0
        if trees:
            shared = min(_common(rows[last], row), limits[number], limits[last])
        if not trees or len(trees[-1].tokens) + len(row) - shared > width:
            trees.append(Tree([], {}))
            shared = 0
        tokens, paths = trees[-1]
        start = len(tokens)
        tokens.extend(row[shared:])
        paths[number] = [*(paths[last][:shared] if shared else []), *range(start, len(tokens))]
        last = number
    return trees


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def in_passes(rows: Sequence[list[int]], budget: int) -> list[list[int]]:
    """The indices of the rows of each pass: at most `budget` tokens with padding, rows that begin alike together."""
    return by_tokens([len(row) for row in rows], budget, sorted(range(len(rows)), key=lambda index: rows[index]))


def by_tokens(lengths: Sequence[int], budget: int, order: Sequence[int] | None = None) -> list[list[int]]:
    """Group rows so that the padded size of each group is at most `budget` tokens; returns their indices.

    A longer row forms a group of its own. If all fit into one group, their order stays. Otherwise neighbours in `order`
    are grouped; None: by length, because all rows of a group are padded to its longest.
    """
    if not lengths:
        return []
    if len(lengths) * max(lengths) <= budget:
        return [list(range(len(lengths)))]
    groups: list[list[int]] = [[]]
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]) if order is None else order:
        longest = max(longest, lengths[index])
        if groups[-1] and (len(groups[-1]) + 1) * longest > budget:
            groups.append([])
            longest = lengths[index]
        groups[-1].append(index)
    return groups


def first_fit(lengths: Sequence[int], width: int) -> list[list[int]]:
    """The indices of the pieces in each bin of `width` tokens: each goes into the first that has room for it.

    Only the newest `OPEN_BINS` are tried. A piece that is longer than a bin gets a bin of its own.
    """
    bins, free = list[list[int]](), list[int]()
    for index, length in enumerate(lengths):
        first = max(0, len(bins) - OPEN_BINS)
        place = next((place for place in range(first, len(bins)) if length <= free[place]), len(bins))
        if place == len(bins):
            bins.append([])
            free.append(width)
        bins[place].append(index)
        free[place] -= length
    return bins
