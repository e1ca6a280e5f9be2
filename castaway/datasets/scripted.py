"""Datasets from scripted play: demonstrations by ordinary players, and balanced preference pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from castaway.datasets.jsonl import read_rows
from castaway.tasks.environment import Message, Prompt, TextEnvironment
from castaway.tasks.reply import Reply


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A situation and what an ordinary player answered."""

    messages: tuple[Message, ...]
    reply: str
    role: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A situation, an answer that suits it, and one that suits another situation."""

    messages: tuple[Message, ...]
    chosen: str
    rejected: str


def play_scripted(
    environment: TextEnvironment,
    seat: str,
    task_ids: Iterable[int],
    make_player: Callable[[Random], Callable[[Prompt], Reply]],
) -> list[tuple[Prompt, Reply]]:
    """Every turn of whole episodes in which one scripted player plays all agents of a seat."""
    turns = []
    for task_id in task_ids:
        environment.reset(task_id, seat)
        play = make_player(Random(task_id))
        while not environment.done:
            replies = [(prompt, play(prompt)) for prompt in environment.prompts()]
            environment.step({prompt.agent: reply.action for prompt, reply in replies})
            turns += replies
    return turns


def balanced_pairs(
    situations: list[tuple[Prompt, Reply]],
    count: int,
    random: Random,
    plain_share: float,
    plain_reasoning: str,
    alike_share: float = 0.0,
) -> list[Pair]:
    """Pairs of which no answer is better in itself.

    Two situations with different right actions give two pairs, in each of which the other's answer is the wrong one. So
    every answer stands as often among the chosen as among the rejected, and only who reads the situation can tell.

    Args:
        situations: prompts with their right answers.
        count: how many pairs; an odd one is rounded down.
        random: draws the situations.
        plain_share: share of the pairs in which both answers bear the same, empty reasoning, so that the actions
            themselves are judged as well.
        plain_reasoning: that reasoning.
        alike_share: share of the pairs whose actions begin with the same word, MOVE EAST and MOVE WEST, where there
            are such; only the details of the situation tell them apart.

    Raises:
        ValueError: within every role all situations have the same right action.
    """
    actions = {(prompt.role, reply.action) for prompt, reply in situations}
    if len(actions) == len({role for role, _ in actions}):
        raise ValueError("balanced pairs need situations of one role with at least two different right actions")
    kin: dict[tuple[str, str], list[tuple[Prompt, Reply]]] = {}
    for prompt, reply in situations:
        kin.setdefault((prompt.role, reply.action.split(" ", 1)[0]), []).append((prompt, reply))
    kin = {key: found for key, found in kin.items() if len({reply.action for _, reply in found}) > 1}
    alike = [(one, key) for key, found in kin.items() for one in found]
    pairs: list[Pair] = []
    while len(pairs) < count - 1:
        if alike and random.random() < alike_share:
            (one, right), key = random.choice(alike)
            other, wrong = random.choice(kin[key])
        else:
            (one, right), (other, wrong) = random.choice(situations), random.choice(situations)
        if right.action == wrong.action or one.role != other.role:
            continue
        if random.random() < plain_share:
            right, wrong = (Reply(plain_reasoning, reply.action) for reply in (right, wrong))
        pairs += [Pair(one.messages, str(right), str(wrong)), Pair(other.messages, str(wrong), str(right))]
    return pairs


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Read demonstrations."""
    return read_rows(path, Demonstration)


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs."""
    return read_rows(path, Pair)
