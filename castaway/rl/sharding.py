"""Shards the frozen weights of a model over the processes that train together, for models that one GPU does not hold.

By PyTorch's FSDP (`fully_shard`; Zhao et al. 2023, arXiv:2304.11277): each process keeps its part of every decoder
block, and gathers a whole block when a pass reaches it. Adapters, value head, embeddings and LM head stay whole in
every process, so gradients are summed as without sharding (`castaway.rl.ranks`).

To gather is collective: all processes have to run the same passes. But one plays longer games than another, or has
fewer turns in a minibatch. So each announces what it is about to run, and one that has nothing to run joins with a pass
over one token, until none has (`Pace`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.hooks import RemovableHandle

from castaway.models.policy import adapter_weights

IDLE, READ, LEARN, BACKWARD = range(4)
"""What a process is about to do: nothing, a forward pass without or with gradients, or the latter's backward pass."""


def shard(causal: Any, device: str) -> Pace:
    """Shard the decoder of a causal language model, whose adapters have been added, over all processes.

    Args:
        causal: the model, on the CPU; each block is moved to the device as it is sharded.
        device: `cpu` or `cuda`.

    Returns:
        What keeps the processes in step; for `Ranks.keep`.
    """
    decoder = causal.get_decoder()
    pace = Pace(decoder)
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    adapters = adapter_weights(causal)
    for block in decoder.layers:
        fully_shard(block, mesh=mesh, ignored_params=adapters)
    # Blocks below one root are gathered ahead of their turn.
    in_blocks = set(decoder.layers.parameters())
    own = {weight for weight in decoder.parameters() if weight not in in_blocks}
    fully_shard(decoder, mesh=mesh, ignored_params=adapters | own)
    causal.to(device)
    # Room for gathered weights is made by the first pass. Made in inference mode, it could not be used for training.
    pace.join(READ)
    return pace


class Pace:
    """Keeps the passes of all processes through one decoder in step."""

    def __init__(self, decoder: Any) -> None:
        """Watch the passes of the decoder, before it is sharded."""
        self._decoder = decoder
        self._joining = False
        self._kept: torch.Tensor | None = None
        """The result of a joining pass with gradients, whose backward pass may follow."""
        decoder.register_forward_pre_hook(self._before_forward)
        decoder.norm.register_forward_hook(self._after_forward)

    def wait(self) -> None:
        """Join the passes of the others until no process has one to run; every process must call this."""
        while (coming := self._announce(IDLE)) != IDLE:
            self.join(coming)
        self._kept = None

    def join(self, kind: int) -> None:
        """Run a pass over one token, or the backward pass of the one before."""
        with self._quietly():
            if kind == BACKWARD:
                assert self._kept is not None
                self._kept.backward()
                self._kept = None
                return
            device = self._decoder.get_input_embeddings().weight.device
            token = torch.zeros((1, 1), dtype=torch.long, device=device)
            with torch.set_grad_enabled(kind == LEARN):
                hidden = self._decoder(input_ids=token, use_cache=False).last_hidden_state
            # Times 0: the gradients that it adds are nothing.
            self._kept = hidden.sum() * 0 if kind == LEARN else None

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Context in which passes are not announced. Training mode is that of a pass with gradient checkpointing."""
        mode = self._decoder.training
        self._joining = True
        self._decoder.train(mode or self._decoder.is_activation_checkpointing)
        try:
            yield
        finally:
            self._joining = False
            self._decoder.train(mode)

    def _before_forward(self, decoder: Any, inputs: Any) -> None:
        # With a forward function of its own, the decoder runs no block: see `next_token_logits`.
        if not self._joining and "forward" not in vars(decoder):
            self._announce(LEARN if torch.is_grad_enabled() else READ)

    def _after_forward(self, norm: Any, inputs: Any, output: torch.Tensor) -> RemovableHandle | None:
        """The gradient of the last hidden state comes first in the backward pass, before any block is gathered."""
        if output.requires_grad and not self._joining:
            output.register_hook(lambda _: self._announce(BACKWARD) and None)
        return None

    def _announce(self, kind: int) -> int:
        """Tell all processes; returns what is run: a process with nothing to do joins the others."""
        kinds = torch.tensor([kind])
        distributed.all_reduce(kinds, distributed.ReduceOp.MAX)
        return int(kinds)
