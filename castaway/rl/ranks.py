"""The processes that train together: shares of the work, sums over all of them, and draws of episodes.

Data parallelism: every process holds the whole model, plays its share of the episodes and learns from its own turns;
the gradients are summed, so that the weights stay alike. What a sum is divided by is counted over all processes, so N
of them make the update that one would make of the same turns. Alone, nothing is sent anywhere.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import distributed

from castaway.config.errors import CastawayError
from castaway.rl.episode_source import EpisodeSource, Task
from castaway.rl.sharding import Pace

Item = TypeVar("Item")


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


def attempted(work: Callable[[], Item]) -> tuple[Item | None, CastawayError | None]:
    """What `work` returns, or the fault that it raises: for `Ranks.gather`."""
    try:
        return work(), None
    except CastawayError as error:
        return None, error


class Ranks:
    """This process among those that train together; without a process group it is alone."""

    def __init__(self) -> None:
        """Join the process group, if there is one."""
        together = distributed.is_available() and distributed.is_initialized()
        self.rank: int = distributed.get_rank() if together else 0
        """This process, from 0."""
        self.count: int = distributed.get_world_size() if together else 1
        """How many there are."""
        self.local = int(os.environ.get("LOCAL_WORLD_SIZE", self.count))
        """How many of them are on this host."""
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

    def gather(self, value: Item, fault: CastawayError | None = None) -> list[Item]:
        """What each process has, in the order of the processes.

        A fault in one process stops all, which raise the first one's: the others would wait for it at their next
        exchange until they time out, and the first process, which writes the checkpoints, would end without any.
        """
        parts: list[Any] = [(value, fault)]
        if self.count > 1:
            self._wait()
            parts *= self.count
            distributed.all_gather_object(parts, (value, fault))
        for _, one in parts:
            if one:
                raise one
        return [part for part, _ in parts]

    def numbers(self, everybody: Sequence[Sequence[int]]) -> list[int]:
        """A number for each item of this process's parts, as one process with the parts of all would count.

        Over all processes the numbers go from 0 without gaps; `everybody` has the sizes of each process's parts.
        """
        own: list[int] = []
        start = 0
        for place in range(max(map(len, everybody), default=0)):
            for rank, counts in enumerate(everybody):
                end = start + (counts[place] if place < len(counts) else 0)
                own += range(start, end) if rank == self.rank else []
                start = end
        return own

    def first(self, work: Callable[[], Item]) -> Item:
        """What `work` returns in the first process, which alone does it; a fault is raised by all."""
        box: list[Any] = [attempted(work) if self.rank == 0 else None]
        if self.count > 1:
            self._wait()
            distributed.broadcast_object_list(box, src=0)
        if box[0][1]:
            raise box[0][1]
        result: Item = box[0][0]
        return result

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


@dataclass(slots=True)
class EvenDraws:
    """One process's draws of training episodes, from a source that every process has.

    Whoever draws, draws one episode for each process and takes its own: so no two play the same. Where games go on from
    step to step, one process may end more of them than another and draw more often; afterwards the others catch up, so
    that the sources stay alike.
    """

    source: EpisodeSource
    ranks: Ranks
    _groups: list[list[Task]] = field(default_factory=list, init=False)
    """What was drawn since `even`: for each draw, one episode for each process."""

    def draw(self) -> Task:
        """This process's one of the next few episodes."""
        self._groups.append([self.source.draw() for _ in range(self.ranks.count)])
        return self.ranks.share(self._groups[-1])[0]

    @property
    def count(self) -> int:
        """How often this process has drawn since `even`."""
        return len(self._groups)

    def even(self, counts: Sequence[int]) -> None:
        """Draw as often as the process that drew most, at the end of a rollout; `counts` has each process's `count`."""
        while self.count < max(counts):
            self.draw()
        for number, group in enumerate(self._groups):
            for count, task in zip(counts, group, strict=True):
                if number >= count:
                    self.source.withdraw(task)
        self._groups = []
