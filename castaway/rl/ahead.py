"""The next rollout, played while the last one is learned from.

Rollout n + 1 is drawn from the weights before update n, by a twin of the actor in a thread of its own: a served teacher
thinks while the device learns, and the device learns while the teacher thinks. PPO's ratio is against the
log-probabilities that were recorded when the words were drawn, so it is exact; it begins one update away from 1 (one
step off-policy, as in Noukhovitch et al. 2024, "Asynchronous RLHF"). Who is faster decides nothing: the same is drawn.
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
    """Another actor on the same frozen weights; what is trained it has for itself."""
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
    """Work in a thread beside the body, which can ask for its result; the body's end waits for its end."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        yield thread.submit(work).result
