"""Datasets from scripted play: demonstrations and balanced preference pairs."""

from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

from castaway.config.errors import CastawayError
from castaway.tasks.environment import Prompt, TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow

Situation = tuple[Prompt, Reply]  # with its right reply
Player = Callable[[Prompt], Reply]
Key = TypeVar("Key")


def play_scripted(
    environment: TextEnvironment, seat: str, task_ids: Iterable[int], make_player: Callable[[Random], Player]
) -> list[Situation]:
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
    situations: list[Situation],
    count: int,
    random: Random,
    no_reasoning_fraction: float,
    plain_reasoning: str,
    hard_negative_fraction: float = 0.0,
) -> list[PairRow]:
    """Preference pairs in which no reply is better on its own, without its situation; an odd `count` is rounded down.

    Two situations with different right actions give two pairs: in each, the other situation's reply is the rejected
    one. So every reply is chosen as often as it is rejected, and a reward model has to read the situation. Both are of
    one role, or an action that only the other role has would give the wrong reply away; except for
    `hard_negative_fraction`, a role has the same share of the pairs as of the situations, however alike its actions
    are.

    In a `no_reasoning_fraction` of the pairs both replies have the `plain_reasoning`, so that only the actions differ.
    In a `hard_negative_fraction` the actions begin with the same word, such as MOVE EAST and MOVE WEST, if there are
    any; these differ only in the details of the situation.
    """
    by_role = _by(lambda prompt, reply: prompt.role, situations)
    roles = [role for role, options in by_role.items() for _ in options]
    if not roles:
        raise CastawayError(
            "preference pairs need situations of one role with two different right actions, and the expert has one: "
            "let it tell situations apart, or make the pairs in the task's `preference_pairs`"
        )
    by_verb = _by(lambda prompt, reply: (prompt.role, reply.action.split(" ", 1)[0]), situations)
    alike = [(one, key) for key, options in by_verb.items() for one in options]
    pairs: list[PairRow] = []
    while len(pairs) < count - 1:
        if alike and random.random() < hard_negative_fraction:
            (one, right), key = random.choice(alike)
            other, wrong = random.choice(by_verb[key])
        else:
            (one, right), (other, wrong) = _two_that_differ(by_role[random.choice(roles)], random)
        if right.action == wrong.action:
            continue
        if random.random() < no_reasoning_fraction:
            right, wrong = (Reply(plain_reasoning, reply.action) for reply in (right, wrong))
        pairs += [(one.messages, str(right), str(wrong)), (other.messages, str(wrong), str(right))]
    return pairs


def _by(key: Callable[[Prompt, Reply], Key], situations: list[Situation]) -> dict[Key, list[Situation]]:
    """The situations with an equal key, in the order of these, where not all have the same action."""
    groups: dict[Key, list[Situation]] = {}
    for prompt, reply in situations:
        groups.setdefault(key(prompt, reply), []).append((prompt, reply))
    return {name: group for name, group in groups.items() if len({reply.action for _, reply in group}) > 1}


def _two_that_differ(situations: list[Situation], random: Random) -> tuple[Situation, Situation]:
    while True:
        one, other = random.choice(situations), random.choice(situations)
        if one[1].action != other[1].action:
            return one, other
