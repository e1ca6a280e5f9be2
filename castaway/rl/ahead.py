"""The next rollout, played while the last one is learned from.

Rollout n + 1 is drawn from the weights before update n, by a twin of the actor in a thread of its own: the device
learns while a served teacher judges. PPO's ratio is against the log-probabilities that were recorded when the tokens
were drawn, so it is exact; when an update begins it is already one update away from 1 (one step off-policy, as in
Noukhovitch et al. 2024, "Asynchronous RLHF", arXiv:2410.18252). The distance from the reference policy, in the reward
and in the report, is that of the weights of the moment all the same: they read each reply once more. Which thread is
faster does not change what is drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from castaway.rl.actor_critic import ActorCritic

Result = TypeVar("Result")


def twin_of(actor: ActorCritic) -> ActorCritic:
    """A copy of the actor that shares its frozen weights and has trained weights of its own."""
    # `deepcopy` takes what its memo holds as copied already, so the frozen weights are not copied.
    shared = {id(weight): weight for weight in actor.parameters() if not weight.requires_grad}
    return copy.deepcopy(actor, shared)


def follow(twin: ActorCritic, actor: ActorCritic) -> None:
    """Give the twin the actor's trained weights."""
    with torch.no_grad():
        for mine, theirs in zip(twin.parameters(), actor.parameters(), strict=True):
            if theirs.requires_grad:
                mine.copy_(theirs)


@contextmanager
def meanwhile(work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Run `work` in a thread while the body runs.

    Yields:
        A function that waits for the result of `work` and returns it, or raises what `work` raised. The context ends
        when both the body and `work` have ended.
    """
    with ThreadPoolExecutor(1, "ahead") as thread:
        yield thread.submit(work).result
