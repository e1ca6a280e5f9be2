"""The processes that train together: shares of the work, and sums over all of them.

Data parallelism: every process holds the whole model, plays its share of the episodes and learns from its own turns;
the gradients are summed, so that the weights stay alike. What a sum is divided by is counted over all processes, so N
of them make the update that one would make of the same turns. Alone, nothing is sent anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch
from torch import distributed

Item = TypeVar("Item")


class Pace(Protocol):
    """Keeps the passes of all processes in step (`castaway.rl.sharding`)."""

    def wait(self) -> None:
        """Join the passes of the others until no process has one to run."""


@contextmanager
def process_group() -> Iterator[None]:
    """Context in which this process is in a process group with the others that torchrun started, if it started any.

    Torchrun says in environment variables who they are. A process that loses another one fails at the next collective.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Gradients of a GPU go by NCCL; counts and texts go by Gloo, on whatever machine.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


class Ranks:
    """This process among those that train together; without a process group it is alone."""

    def __init__(self) -> None:
        """Join the process group, if there is one."""
        together = distributed.is_available() and distributed.is_initialized()
        self.rank: int = distributed.get_rank() if together else 0
        """This process, from 0."""
        self.count: int = distributed.get_world_size() if together else 1
        """How many there are."""
        self._pace: Pace | None = None

    def keep(self, pace: Pace) -> None:
        """Before anything is exchanged, join the passes that other processes still run through a sharded model."""
        self._pace = pace

    def _wait(self) -> None:
        if self._pace:
            self._pace.wait()

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Every `count`-th item: this process's share."""
        return list(items[self.rank :: self.count])

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes; every one must ask for it."""
        if self.count == 1:
            return value
        self._wait()
        result = value.detach().clone()
        distributed.all_reduce(result)
        return result

    def gather(self, value: Item) -> list[Item]:
        """What each process has, in the order of the processes."""
        if self.count == 1:
            return [value]
        self._wait()
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, value)
        return found

    def numbers(self, sizes: Sequence[int]) -> list[int]:
        """Numbers for the items of this process's parts, as one process would count them, which has everybody's parts.

        Args:
            sizes: of the parts that `share` gave to this process.

        Returns:
            One number for each item; over all processes they go from 0 without gaps.
        """
        everybody = self.gather(list(sizes))
        found: list[int] = []
        start = 0
        for place in range(max(map(len, everybody), default=0)):
            for rank, counts in enumerate(everybody):
                end = start + (counts[place] if place < len(counts) else 0)
                found += range(start, end) if rank == self.rank else []
                start = end
        return found

    def first(self, value: Item) -> Item:
        """What the first process has."""
        if self.count == 1:
            return value
        self._wait()
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        return box[0]

    def mean(self, values: Mapping[str, float], weight: float) -> dict[str, float]:
        """Weighted sums of named figures, which are means if the weights of all processes add up to one."""
        if self.count == 1:
            return dict(values)
        parts = self.gather({name: weight * value for name, value in values.items()})
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: sum(part.get(name, 0.0) for part in parts) for name in names}

    def sum_gradients(self, weights: Iterable[torch.nn.Parameter]) -> None:
        """Make every gradient the sum over all processes, in one message; a process without turns has zeros."""
        if self.count == 1:
            return
        known = [weight for weight in weights if weight.requires_grad]
        gradients = [weight.grad if weight.grad is not None else torch.zeros_like(weight) for weight in known]
        self._wait()
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        for weight, part in zip(known, flat.split([weight.numel() for weight in known]), strict=True):
            weight.grad = part.view_as(weight).clone()
