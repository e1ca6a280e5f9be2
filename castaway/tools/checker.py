"""Tests any `TextEnvironment` against the contract in `castaway.tasks.environment`.

    check_environment(lambda: MyEnvironment(), task_ids=range(3))

It plays whole episodes in every seat: with random legal actions, with the same actions again, and with nothing but
idle, missing or illegal actions. It stops at the first broken rule of the contract and names it in one sentence. What a
game may lack, and what that means for training, it returns as notes.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

from castaway.config.errors import CastawayError
from castaway.tasks.environment import HELD_OUT_START, Outcome, Prompt, Refusal, Severity, TextEnvironment
from castaway.tasks.reply import Reply, parse_reply

STEP_LIMIT = 20_000  # an episode of more steps counts as one that never ends
CLOSE_LOOK = 5  # number of turns at the start of an episode in which the rules are tested
CLOSE_LOOK_EVERY = 40
"""After those turns the rules are tested in every 40th turn: testing each one would take far too long."""
FREE_TEXT = (
    "any text is legal and no legal actions are listed: the rules refuse nothing, and only the game says later what a "
    "reply was worth"
)
AT_THE_END = "rewards come with the last step alone: only ppo.advantage.gamma_turn and lambda_turn credit earlier turns"

NONSENSE = ("", " ", "\n", "no such action", "\x00\u2028\U0001f3dd", "a" * 2000, "**WAIT**", "1 2 3", "{}", "'; --")
"""Texts that `repair` must turn into a legal action."""
FREE_WORDS = ("I agree.", "no such action", "[1]")  # what the checker says where no legal actions are listed
Choose = Callable[[TextEnvironment, Sequence[Prompt]], dict[str, str]]  # typed actions by agent, for these prompts
Make = Callable[[], TextEnvironment]


def check_environment(make: Make, task_ids: Iterable[int] = range(3)) -> tuple[str, ...]:
    """Play episodes of `task_ids`, and of the first held-out id, against the contract.

    `make` makes a new environment; each one must behave in the same way. Returns notes, one sentence each, on what the
    environment lacks though its contract allows it. CastawayError names the first rule of the contract that is broken.
    """
    environment, chosen = make(), list(dict.fromkeys([*task_ids, HELD_OUT_START]))
    _check_names(environment)
    _check_reset(environment)
    recordings = []
    for task_id in chosen:
        for seat in environment.seats:
            where = f"episode {task_id} of seat {seat!r}"
            played = _play(environment, task_id, seat, _random_legal(task_id), where, close=True)
            recordings.append(played)
            _check_end(environment, where)
            _check_same(environment, make(), played, task_id, seat, where)
    for seat in environment.seats:
        _check_idleness(environment, chosen[0], seat)
    notes = [FREE_TEXT] if any(played.unlisted for played in recordings) else []
    several = any(len(played.actions) > 1 for played in recordings)
    return (*notes, *([AT_THE_END] if several and not any(played.paid_early for played in recordings) else []))


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise CastawayError(f"the environment breaks its contract: {sentence}")


# One episode, and the checks in each of its turns ---------------------------------------------------------------------


@dataclass(slots=True)
class _Recording:
    """The typed actions of an episode, and all that the environment returned after each step, as text."""

    actions: list[dict[str, str]] = field(default_factory=list)
    moments: list[tuple[str, str, str]] = field(default_factory=list)  # snapshot, prompts and rewards
    unlisted: bool = False  # whether legal actions were not listed in some turn
    paid_early: bool = False  # whether a step before the last one paid anybody


def _play(
    environment: TextEnvironment, task_id: int, seat: str, choose: Choose, where: str, close: bool = False
) -> _Recording:
    """Play an episode to its end, and check each turn; with `close`, the rules and earlier snapshots too."""
    played = _Recording()
    environment.reset(task_id, seat)
    rewards: Mapping[str, float] = {}
    _demand(not environment.done, f"{where} is over before anybody has replied")
    while not environment.done:
        _demand(len(played.actions) < STEP_LIMIT, f"{where} does not end within {STEP_LIMIT} steps")
        prompts = environment.prompts()
        turn = len(played.actions)
        _check_prompts(environment, prompts, where)
        if close and (turn < CLOSE_LOOK or turn % CLOSE_LOOK_EVERY == 0):
            _look_closely(environment, prompts, turn, where)
        snapshot = environment.snapshot()
        played.moments.append(_moment(snapshot, prompts, rewards, where))
        actions = choose(environment, prompts)
        played.unlisted |= any(not environment.rules.legal_actions(prompt.observation) for prompt in prompts)
        rewards = environment.step(actions)
        _demand(set(rewards) == set(environment.agents), f"step does not return a reward for every agent in {where}")
        finite = all(isinstance(paid, int | float) and math.isfinite(paid) for paid in rewards.values())
        _demand(finite, f"a reward of {where} is not a finite number")
        played.paid_early |= not environment.done and any(rewards.values())
        played.actions.append(actions)
        if close:
            again = _moment(snapshot, prompts, {}, where)
            _demand(again[:2] == played.moments[-1][:2], f"step changes an earlier snapshot or prompt in {where}")
    played.moments.append(_moment(environment.snapshot(), environment.prompts(), rewards, where))
    return played


def _moment(snapshot: Any, prompts: Sequence[Prompt], rewards: Mapping[str, float], where: str) -> tuple[str, str, str]:
    state = ""
    try:
        state = json.dumps(snapshot, allow_nan=False)
    except (TypeError, ValueError) as error:
        _demand(False, f"the snapshot in {where} is not JSON: {error}")
    _demand("said" not in snapshot, f"the snapshot in {where} has the key `said`, under which replays keep the replies")
    shown = json.dumps([(prompt.agent, prompt.role, prompt.messages) for prompt in prompts])
    return state, shown, json.dumps(dict(rewards))


def _check_prompts(environment: TextEnvironment, prompts: Sequence[Prompt], where: str) -> None:
    _demand(bool(prompts), f"there is no prompt though {where} is not done")
    agents = [prompt.agent for prompt in prompts]
    _demand(set(agents) <= set(environment.agents), f"{where} prompts an agent that is not in `agents`")
    _demand(len(set(agents)) == len(agents), f"{where} prompts an agent twice in one turn")
    for prompt in prompts:
        _demand(isinstance(prompt.role, str) and bool(prompt.role), f"a prompt of {where} has no role")
        _demand(bool(prompt.messages), f"a prompt of {where} has no messages")
        for message in prompt.messages:
            texts = set(message) == {"role", "content"} and all(isinstance(text, str) for text in message.values())
            _demand(texts, f"a message of {where} is not made of the texts `role` and `content`")
            _demand(message["role"] in ("system", "user"), f"a message of {where} has the role {message['role']!r}")
            _demand(bool(message["content"]), f"a message of {where} is empty")
        _demand(prompt.messages[-1]["role"] == "user", f"the last message of a prompt of {where} is not the user's")


def _look_closely(environment: TextEnvironment, prompts: Sequence[Prompt], turn: int, where: str) -> None:
    rules = environment.rules
    first, second = ([(p.agent, p.messages) for p in asked] for asked in (prompts, environment.prompts()))
    _demand(first == second, f"two calls of prompts() differ in {where}")
    for prompt in prompts:
        seen = prompt.observation
        _demand(rules.refusal(seen, environment.idle) is None, f"the idle action is refused in {where}")
        legal = rules.legal_actions(seen)
        free = all(rules.refusal(seen, text) is None for text in FREE_WORDS)
        _demand(bool(legal) or free, f"legal_actions is empty, though not every text is legal, in {where}")
        _demand(legal == rules.legal_actions(seen), f"two calls of legal_actions differ in {where}")
        for action in legal:
            _demand(rules.refusal(seen, action) is None, f"the legal action {action!r} is refused in {where}")
            _demand(isinstance(rules.blunder(seen, action), str), f"blunder returns no text for {action!r} in {where}")
            reason = rules.reason(seen, action)
            one_line = bool(reason.strip()) and "\n" not in reason
            _demand(one_line, f"reason returns no line of text for {action!r} in {where}")
        for text in [*NONSENSE, *legal[:2], _garbled((legal or FREE_WORDS)[-1], turn)]:
            fixed = rules.repair(seen, text)
            turns = f"repair turns {text[:40]!r} into"
            _demand(rules.refusal(seen, fixed) is None, f"{turns} the illegal {fixed!r} in {where}")
            typed = parse_reply(str(Reply("any", fixed))).action == fixed
            _demand(typed, f"{turns} {fixed!r}, which no ACTION line can hold, in {where}")
        # May be legal where any text is an answer.
        if (refusal := rules.refusal(seen, "no such action")) is not None:
            said = isinstance(refusal, Refusal) and bool(refusal.sentence.strip()) and "\n" not in refusal.sentence
            _demand(said, f"a refusal in {where} is not one sentence")
            known = refusal.severity in get_args(Severity)
            _demand(known, f"a refusal in {where} has the severity {refusal.severity!r}, which does not exist")


# The clauses about whole episodes ------------------------------------------------------------------------------------


def _check_names(environment: TextEnvironment) -> None:
    for name in ("name", "idle"):
        value = getattr(environment, name, None)
        _demand(isinstance(value, str) and bool(value), f"`{name}` is not a text")
    for name in ("agents", "seats"):
        value = getattr(environment, name, None)
        texts = isinstance(value, tuple) and all(isinstance(text, str) and text for text in value)
        _demand(texts and bool(value), f"`{name}` is not a tuple of texts")
        _demand(len(set(value or ())) == len(value or ()), f"`{name}` holds a name twice")


def _check_reset(environment: TextEnvironment) -> None:
    for task_id, seat, what in ((-1, environment.seats[0], "a negative id"), (0, "no such seat", "an unknown seat")):
        with suppress(ValueError):
            environment.reset(task_id, seat)
            _demand(False, f"reset does not raise ValueError for {what}")


def _check_end(environment: TextEnvironment, where: str) -> None:
    _demand(environment.prompts() == (), f"there is a prompt though {where} is done")
    outcome: Any = environment.outcome()
    known = isinstance(outcome, Outcome) and isinstance(outcome.success, bool) and bool(outcome.ending)
    _demand(known, f"outcome does not say how {where} ended")
    figures = all(isinstance(value, int | float) and math.isfinite(value) for value in outcome.details.values())
    _demand(figures, f"a detail of the outcome of {where} is not a finite number")
    score = outcome.details.get("score", 0.0)
    _demand(0 <= score <= 1, f"the detail `score` of {where} is {score}, expected a number from 0 to 1")
    labelled = all(isinstance(label, str) for label in outcome.labels.values())
    _demand(labelled, f"a label of the outcome of {where} is not a text")
    with suppress(ValueError):
        environment.step({})
        _demand(False, f"step does not raise ValueError though {where} is done")


def _check_same(
    used: TextEnvironment, other: TextEnvironment, played: _Recording, task_id: int, seat: str, where: str
) -> None:
    """Play the same typed actions again: on the same instance, and on another one that has played another episode."""
    # A turn of another episode first shows whether state is kept beyond `reset`.
    other.reset(task_id + 1, seat)
    other.step({})
    for environment, which in ((used, "after reset"), (other, "on another instance")):
        again = _play(environment, task_id, seat, _recorded(played.actions), where)
        _demand(again.moments == played.moments, f"{where} played again {which} with the same actions differs")


def _check_idleness(environment: TextEnvironment, task_id: int, seat: str) -> None:
    """A missing or illegal action must have the same effect as the idle action."""
    where = f"episode {task_id} of seat {seat!r}"
    idle = environment.idle
    still = _play(environment, task_id, seat, lambda e, prompts: {p.agent: idle for p in prompts}, f"an idle {where}")
    missing = _play(environment, task_id, seat, lambda e, prompts: {}, where)
    _demand(missing.moments == still.moments, f"a missing action does not count as idle in {where}")
    wrong = _play(environment, task_id, seat, _nonsense(task_id), where)
    _demand(wrong.moments == still.moments, f"an illegal action does not count as idle in {where}")


def _random_legal(seed: int) -> Choose:
    random = Random(seed)
    return lambda environment, prompts: {prompt.agent: random.choice(_legal(environment, prompt)) for prompt in prompts}


def _legal(environment: TextEnvironment, prompt: Prompt) -> tuple[str, ...]:
    return environment.rules.legal_actions(prompt.observation) or FREE_WORDS


def _recorded(actions: Sequence[dict[str, str]]) -> Choose:
    remaining = iter(actions)
    return lambda environment, prompts: next(remaining, {})


def _nonsense(seed: int) -> Choose:
    random = Random(seed)

    def illegal(environment: TextEnvironment, prompt: Prompt) -> str:
        near = _garbled(random.choice(_legal(environment, prompt)), random.randrange(4))
        texts = (near, random.choice(NONSENSE), "no such action")
        # In an environment that accepts any text all of these may be legal; idle then leaves the comparison valid.
        return next((text for text in texts if environment.rules.refusal(prompt.observation, text)), environment.idle)

    return lambda environment, prompts: {prompt.agent: illegal(environment, prompt) for prompt in prompts}


def _garbled(action: str, how: int) -> str:
    return (action.lower(), f"{action} ", action[1:], f"{action}!")[how % 4]
