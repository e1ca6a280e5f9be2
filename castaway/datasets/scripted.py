"""Datasets from scripted play: demonstrations and balanced preference pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from castaway.datasets.jsonl import read_rows
from castaway.errors import CastawayError
from castaway.tasks.environment import Message, Prompt, TextEnvironment
from castaway.tasks.reply import Reply


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A situation and the demonstrator's reply."""

    messages: tuple[Message, ...]
    reply: str
    role: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A preference pair: a situation, a reply that suits it, and a worse one."""

    messages: tuple[Message, ...]
    chosen: str
    rejected: str


def play_scripted(
    environment: TextEnvironment,
    seat: str,
    task_ids: Iterable[int],
    make_player: Callable[[Random], Callable[[Prompt], Reply]],
) -> list[tuple[Prompt, Reply]]:
    """All turns of whole episodes in which one scripted player plays every agent of a seat."""
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
    """Preference pairs in which no reply is better on its own, without its situation.

    Two situations with different right actions give two pairs: in each, the other situation's reply is the rejected
    one. So every reply is chosen as often as it is rejected, and a reward model has to read the situation. Both are of
    one role, or an action that only the other role has would give the wrong reply away; except for `alike_share`, a
    role has the same share of the pairs as of the situations, however alike its actions are.

    Args:
        situations: prompts with their right replies.
        count: number of pairs; an odd number is rounded down.
        random: draws the situations.
        plain_share: share of the pairs in which both replies have the same reasoning without content, so that only
            the actions differ.
        plain_reasoning: that reasoning.
        alike_share: share of the pairs whose actions begin with the same word, such as MOVE EAST and MOVE WEST, if
            there are any; these differ only in the details of the situation.

    Raises:
        CastawayError: no role has situations with different right actions.
    """
    by_role: dict[str, list[tuple[Prompt, Reply]]] = {}
    for prompt, reply in situations:
        by_role.setdefault(prompt.role, []).append((prompt, reply))
    by_role = {role: found for role, found in by_role.items() if len({reply.action for _, reply in found}) > 1}
    roles = [role for role, found in by_role.items() for _ in found]
    if not roles:
        raise CastawayError(
            "preference pairs need situations of one role with two different right actions, and the expert has one: "
            "let it tell situations apart, or make the pairs in the task's `preference_pairs`"
        )
    by_verb: dict[tuple[str, str], list[tuple[Prompt, Reply]]] = {}
    for prompt, reply in situations:
        by_verb.setdefault((prompt.role, reply.action.split(" ", 1)[0]), []).append((prompt, reply))
    by_verb = {key: found for key, found in by_verb.items() if len({reply.action for _, reply in found}) > 1}
    alike = [(one, key) for key, found in by_verb.items() for one in found]
    pairs: list[Pair] = []
    while len(pairs) < count - 1:
        if alike and random.random() < alike_share:
            (one, right), key = random.choice(alike)
            other, wrong = random.choice(by_verb[key])
        else:
            (one, right), (other, wrong) = _two_that_differ(by_role[random.choice(roles)], random)
        if right.action == wrong.action:
            continue
        if random.random() < plain_share:
            right, wrong = (Reply(plain_reasoning, reply.action) for reply in (right, wrong))
        pairs += [Pair(one.messages, str(right), str(wrong)), Pair(other.messages, str(wrong), str(right))]
    return pairs


def _two_that_differ(
    situations: list[tuple[Prompt, Reply]], random: Random
) -> tuple[tuple[Prompt, Reply], tuple[Prompt, Reply]]:
    """Two situations with different right actions; there are such two."""
    while True:
        one, other = random.choice(situations), random.choice(situations)
        if one[1].action != other[1].action:
            return one, other


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Read demonstrations from a JSON lines file."""
    return read_rows(path, Demonstration)


def read_pairs(path: Path) -> list[Pair]:
    """Read preference pairs from a JSON lines file."""
    return read_rows(path, Pair)
