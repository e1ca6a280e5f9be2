"""Tests any `TextEnvironment` against the contract in `castaway.tasks.environment`.

    check_environment(lambda: MyEnvironment(), task_ids=range(3))

It plays whole episodes in every seat: with random legal actions, with the same actions again, and with nothing but
idle, missing or illegal actions. It stops at the first broken rule of the contract and names it in one sentence. What a
game may lack, and what that means for training, it returns as notes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from castaway.errors import CastawayError
from castaway.tasks.checking_players import FREE_WORDS, NONSENSE, Choose, garbled, nonsense, random_legal, recorded
from castaway.tasks.environment import HELD_OUT_START, Outcome, Prompt, Refusal, Severity, TextEnvironment
from castaway.tasks.reply import Reply, parse_reply

STEP_LIMIT = 20_000
"""An episode of more steps counts as one that never ends."""
CLOSE_LOOK = 5
"""Number of turns at the start of an episode in which the rules are tested."""
CLOSE_LOOK_EVERY = 40
"""After those turns the rules are tested in every 40th turn: testing each one would take far too long."""
FREE_TEXT = (
    "any text is legal and no legal actions are listed: the rules refuse nothing, and only the game says later what a "
    "reply was worth"
)
AT_THE_END = "rewards come with the last step alone: credit reaches earlier turns by ppo.gamma_turn and ppo.lambda_turn"

Make = Callable[[], TextEnvironment]


def check_environment(make: Make, task_ids: Iterable[int] = range(3)) -> tuple[str, ...]:
    """Play episodes of `task_ids`, and of the first held-out id, against the contract.

    Args:
        make: makes a new environment; each one must behave in the same way.
        task_ids: training ids to play.

    Returns:
        Notes, one sentence each, on what the environment lacks though its contract allows it.

    Raises:
        CastawayError: a rule of the contract is broken; the message says which.
    """
    environment, chosen = make(), list(dict.fromkeys([*task_ids, HELD_OUT_START]))
    _check_names(environment)
    _check_reset(environment)
    recordings = []
    for task_id in chosen:
        for seat in environment.seats:
            where = f"episode {task_id} of seat {seat!r}"
            played = _play(environment, task_id, seat, random_legal(task_id), where, close=True)
            recordings.append(played)
            _check_end(environment, where)
            _check_same(environment, make(), played, task_id, seat, where)
    for seat in environment.seats:
        _check_idleness(environment, chosen[0], seat)
    return _notes(recordings)


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise CastawayError(f"the environment breaks its contract: {sentence}")


# One episode, and the checks in each of its turns ---------------------------------------------------------------------


@dataclass(slots=True)
class _Recording:
    """A played episode: the typed actions, and after each step all that the environment returned, as text."""

    actions: list[dict[str, str]] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    unlisted: bool = False
    """Whether legal actions were not listed in some turn."""
    paid_early: bool = False
    """Whether a step before the last one paid anybody."""


def _play(
    environment: TextEnvironment, task_id: int, seat: str, choose: Choose, where: str, close: bool = False
) -> _Recording:
    """Play an episode to its end, check every turn, and return the recording.

    With `close`, the rules are tested as well, and that `step` does not change what was returned earlier.
    """
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
        _check_rewards(environment, rewards, where)
        played.paid_early |= not environment.done and any(rewards.values())
        played.actions.append(actions)
        if close:
            again = _without_rewards(_moment(snapshot, prompts, {}, where))
            kept = again == _without_rewards(played.moments[-1])
            _demand(kept, f"step changes an earlier snapshot or prompt in {where}")
    played.moments.append(_moment(environment.snapshot(), environment.prompts(), rewards, where))
    return played


def _moment(snapshot: Any, prompts: Sequence[Prompt], rewards: Mapping[str, float], where: str) -> str:
    """All that an environment returns in one turn, as one text of three lines: snapshot, prompts, rewards."""
    try:
        state = json.dumps(snapshot, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CastawayError(
            f"the environment breaks its contract: the snapshot in {where} is not JSON: {error}"
        ) from None
    _demand("said" not in snapshot, f"the snapshot in {where} has the key `said`, under which replays keep the replies")
    shown = json.dumps([(prompt.agent, prompt.role, prompt.messages) for prompt in prompts])
    return "\n".join([state, shown, json.dumps(dict(rewards))])


def _without_rewards(moment: str) -> str:
    """A moment without its last line; `json.dumps` writes no line breaks."""
    return moment.rsplit("\n", 1)[0]


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
    """Test the rules of the environment on the prompts of this turn."""
    rules = environment.rules
    first = [(prompt.agent, prompt.messages) for prompt in prompts]
    _demand(
        first == [(p.agent, p.messages) for p in environment.prompts()], f"two calls of prompts() differ in {where}"
    )
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
            _demand(
                bool(reason.strip()) and "\n" not in reason, f"reason returns no line of text for {action!r} in {where}"
            )
        for text in [*NONSENSE, *legal[:2], garbled((legal or FREE_WORDS)[-1], turn)]:
            fixed = rules.repair(seen, text)
            _demand(
                rules.refusal(seen, fixed) is None, f"repair turns {text[:40]!r} into the illegal {fixed!r} in {where}"
            )
            typed = parse_reply(str(Reply("any", fixed))).action == fixed
            _demand(typed, f"repair turns {text[:40]!r} into {fixed!r}, which no ACTION line can hold, in {where}")
        refusal = rules.refusal(seen, "no such action")  # may be legal where any text is an answer
        if refusal is not None:
            said = isinstance(refusal, Refusal) and bool(refusal.sentence.strip()) and "\n" not in refusal.sentence
            _demand(said, f"a refusal in {where} is not one sentence")
            _demand(
                refusal.severity in get_args(Severity),
                f"a refusal in {where} has the severity {refusal.severity!r}, which does not exist",
            )


def _check_rewards(environment: TextEnvironment, rewards: Mapping[str, float], where: str) -> None:
    _demand(set(rewards) == set(environment.agents), f"step does not return a reward for every agent in {where}")
    finite = all(isinstance(paid, int | float) and math.isfinite(paid) for paid in rewards.values())
    _demand(finite, f"a reward of {where} is not a finite number")


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
        try:
            environment.reset(task_id, seat)
        except ValueError:
            continue
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
    for environment, which in ((used, "after reset"), (other, "on another instance")):
        if environment is other:
            # A turn of another episode first: an environment that keeps state beyond `reset` is found out.
            environment.reset(task_id + 1, seat)
            environment.step({})
        again = _play(environment, task_id, seat, recorded(played.actions), where)
        _demand(again.moments == played.moments, f"{where} played again {which} with the same actions differs")


def _check_idleness(environment: TextEnvironment, task_id: int, seat: str) -> None:
    """A missing or illegal action must have the same effect as the idle action."""
    where = f"episode {task_id} of seat {seat!r}"
    idle = environment.idle
    still = _play(environment, task_id, seat, lambda e, prompts: {p.agent: idle for p in prompts}, f"an idle {where}")
    missing = _play(environment, task_id, seat, lambda e, prompts: {}, where)
    _demand(missing.moments == still.moments, f"a missing action does not count as idle in {where}")
    wrong = _play(environment, task_id, seat, nonsense(task_id), where)
    _demand(wrong.moments == still.moments, f"an illegal action does not count as idle in {where}")


def _notes(recordings: Sequence[_Recording]) -> tuple[str, ...]:
    """What the played episodes show that the contract allows."""
    found = [FREE_TEXT] if any(played.unlisted for played in recordings) else []
    several = any(len(played.actions) > 1 for played in recordings)
    return (*found, *([AT_THE_END] if several and not any(played.paid_early for played in recordings) else []))
