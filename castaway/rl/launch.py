"""The first process starts the other processes that train with it.

`dvc repro` starts one process. Where more are wanted, it starts the others itself, joins them in a process group on
the loopback interface, and ends them with itself: a follower that loses its leader fails at the next collective.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import torch
from torch import distributed

from castaway.errors import CastawayError

JOIN_SECONDS = 60.0
"""How long followers may take to end after the leader has."""


@contextmanager
def together(count: int, follow: Callable[..., None], arguments: tuple[Any, ...]) -> Iterator[None]:
    """Inside, this process is the first of `count` of a process group; the others call `follow(*arguments)`.

    Args:
        count: 1 starts nothing.
        follow: a function of a module, which does what the body does.
        arguments: what can be pickled.

    Raises:
        CastawayError: a follower failed.
    """
    if count == 1:
        yield
        return
    port = _free_port()
    spawn = get_context("spawn")
    followers = [
        spawn.Process(target=_join, args=(rank, count, port, follow, arguments), daemon=True)
        for rank in range(1, count)
    ]
    for follower in followers:
        follower.start()
    try:
        with _member(0, count, port):
            yield
        for rank, follower in enumerate(followers, start=1):
            follower.join(JOIN_SECONDS)
            if follower.exitcode != 0:
                raise CastawayError(f"process {rank} of {count} failed ({follower.exitcode}); its lines above say why")
    finally:
        for follower in followers:
            follower.kill()


def _join(rank: int, count: int, port: int, follow: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with _member(rank, count, port):
        follow(*arguments)


@contextmanager
def _member(rank: int, count: int, port: int) -> Iterator[None]:
    """A member of the process group."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(rank)
    # Gradients of a GPU go by NCCL; counts and texts go by Gloo, on whatever machine.
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    distributed.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
