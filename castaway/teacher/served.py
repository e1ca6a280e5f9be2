"""A teacher behind a server: a language model judges, and the rules of the game have the last word.

The engine knows what is legal; the model is asked for what the engine cannot know: what was meant, how bad it was, and
why. So its `valid` is compared and counted, but never believed, its action is executed only if it is legal now, and its
penalty is held on the scale. Whatever it cannot give, the rules give, and the verdict's `source` says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any, Literal, TypeVar

from castaway.tasks.environment import Rules
from castaway.tasks.reply import parse_reply
from castaway.teacher.agreement import dispute
from castaway.teacher.answer import Answer, answer_schema, parse_answer
from castaway.teacher.base import Attempt, TeacherOutage, Verdict
from castaway.teacher.cache import AnswerCache, key_of
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway.teacher.question import asked_again, question
from castaway.teacher.rules import RulesTeacher

Result = TypeVar("Result")
Question = list[dict[str, str]]
Found = str | Answer | ServerFault | None
"""A usable answer as text, a refused one that could be read, a fault, or nothing that could be read."""
Witness = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""Is told of a call: its name, what went in, what came out, and when it began and ended, in seconds since 1970."""
ONE_IN = 50
"""Of so many questions, one is told to the witness; which one depends on the question alone."""


@dataclass(frozen=True)
class Conduct:
    """When the model is asked, and what its word counts."""

    cascade: bool = False
    """Ask only about what the rules find fault with."""
    override_legal: bool = False
    """Replace a legal action that the model calls invalid by the model's, if that is legal too."""
    on_outage: Literal["rules", "pause"] = "pause"
    """Go on with the verdicts of the rules, or stop."""


class ServedTeacher:
    """A `Teacher` made of a server and an environment's `Rules`."""

    def __init__(
        self,
        task: str,
        rules: Rules,
        endpoint: Endpoint,
        conduct: Conduct,
        cache: AnswerCache | None = None,
        witness: Witness = lambda name, inputs, outputs, began, ended: None,
    ) -> None:
        """Judge moves of a task; nothing is asked yet."""
        self._witness = witness
        self._sample: deque[tuple[dict[str, Any], dict[str, Any], float, float]] = deque()
        self._task, self._rules, self._conduct = task, rules, conduct
        self._by_rules = RulesTeacher(rules)
        self._model, self._cache = endpoint.model, cache
        self._schema = answer_schema()
        self._loop = _LoopThread()
        self._client = self._loop.run(_made(endpoint))
        self._tally: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """What happened so far: attempts, cache hits, tries, faults by kind, answers that could not be used ..."""
        return dict(self._tally + self._client.counts)

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._client.close())
        self._loop.stop()

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """One verdict for each attempt, all that need the model asked side by side.

        Raises:
            TeacherOutage: the server does not answer and the conduct is to pause.
        """
        self._count("attempts", len(attempts))
        verdicts = self._by_rules.judge(attempts)
        asked = [
            number
            for number, verdict in enumerate(verdicts)
            if not (self._conduct.cascade and verdict.valid and verdict.penalty == 0)
        ]
        questions = {number: question(self._task, self._rules, attempts[number]) for number in asked}
        keys = {number: self._key(messages) for number, messages in questions.items()}
        stored = self._cache.get(sorted(set(keys.values()))) if self._cache else {}
        known = {
            keys[n]: stored[keys[n]] for n in asked if keys[n] in stored and self._usable(attempts[n], stored[keys[n]])
        }
        self._count("cached", sum(key in known for key in keys.values()))
        # The same question is asked once, however many students ask it in one round.
        new = {keys[number]: number for number in reversed(asked) if keys[number] not in known}
        found = self._loop.run(self._ask_all({key: (attempts[n], questions[n]) for key, n in new.items()}))
        usable = {key: text for key, text in found.items() if isinstance(text, str)}
        if self._cache:
            self._cache.put(usable)
        while self._sample:
            self._witness("verdict", *self._sample.popleft())
        self._face([answer for answer in found.values() if isinstance(answer, ServerFault)])
        known = {**known, **usable}
        for number in asked:
            attempt, by_rules, text = attempts[number], verdicts[number], known.get(keys[number])
            if text is not None:
                verdicts[number] = self._verdict(attempt, by_rules, parse_answer(text))
            elif isinstance(refused := found.get(keys[number]), Answer):
                verdicts[number] = replace(by_rules, dispute=dispute(refused, by_rules, impossible=True))
        return verdicts

    def _count(self, name: str, number: int) -> None:
        """Several threads count."""
        with self._lock:
            self._tally[name] += number

    def _key(self, messages: Sequence[dict[str, str]]) -> str:
        """A verdict depends on the model and on all that it is shown: rubric, situation, and the student's text."""
        return key_of([self._model, *(message["content"] for message in messages)])

    def _face(self, outages: Sequence[ServerFault]) -> None:
        """Go on without the model, or stop; what it did answer is stored by now, and not asked again."""
        self._count("outages", len(outages))
        if outages and self._conduct.on_outage == "pause":
            raise TeacherOutage(f"{outages[0]}; start it and run the stage again, which goes on where it stopped")

    async def _ask_all(self, questions: dict[str, tuple[Attempt, Question]]) -> dict[str, Found]:
        """What came of all questions, by key; of a sample, somebody is told."""
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(self._ask_one(key, *asked)) for key, asked in questions.items()}
        return {key: task.result() for key, task in tasks.items()}

    async def _ask_one(self, key: str, attempt: Attempt, messages: Question) -> Found:
        began = time()
        found = await self._ask(attempt, messages)
        if int(key[:8], 16) % ONE_IN == 0:
            said = found.model_dump() if isinstance(found, Answer) else str(found)
            self._sample.append(({"messages": messages}, {"answer": said}, began, time()))
        return found

    async def _ask(self, attempt: Attempt, messages: Question) -> Found:
        """An answer that can be used, asked for once more if the first cannot.

        Failing that, the last one that could be read, if only to report on it; or the fault that prevents any.
        """
        read: Answer | None = None
        try:
            for last in (False, True):
                text = await self._client.complete(messages, self._schema)
                try:
                    read = parse_answer(text)
                    self._check(attempt, read)
                    return text
                except ValueError as error:
                    self._count("unusable" if last else "asked again", 1)
                    messages = asked_again(messages, text, str(error))
        except ServerFault as fault:
            return fault
        return read

    def _check(self, attempt: Attempt, answer: Answer) -> None:
        """Refuse what is built on an error about the game; ValueError says which, so that the model can be told."""
        observation = attempt.prompt.observation
        illegal = self._rules.refusal(observation, parse_reply(attempt.text).action)
        if illegal and answer.valid:
            raise ValueError(f"valid: the player's action is not legal: {illegal.sentence}")
        if illegal is None and (answer.valid or not self._conduct.override_legal):
            return
        refusal = self._rules.refusal(observation, answer.action)
        if refusal:
            raise ValueError(f"action: {answer.action[:60]!r} is not legal: {refusal.sentence}")

    def _usable(self, attempt: Attempt, text: str) -> bool:
        """Whether an answer would pass now: a stored one may be older than the rules, or of another conduct."""
        try:
            self._check(attempt, parse_answer(text))
        except ValueError:
            return False
        return True

    def _verdict(self, attempt: Attempt, by_rules: Verdict, answer: Answer) -> Verdict:
        """What counts of an answer that passed `_check`."""
        given = replace(
            by_rules,
            penalty=answer.on_the_scale,
            critique=answer.remark,
            source=self._model,
            dispute=dispute(answer, by_rules),
        )
        if by_rules.valid and (answer.valid or not self._conduct.override_legal):
            return given
        reasoning = by_rules.reasoning
        if answer.action != by_rules.action:
            reasoning = self._rules.reason(attempt.prompt.observation, answer.action)
        return replace(given, valid=False, action=answer.action, reasoning=reasoning)


async def _made(endpoint: Endpoint) -> ChatClient:
    """The client belongs to the loop that it is made in."""
    return ChatClient(endpoint)


class _LoopThread:
    """An event loop in a thread of its own, which keeps connections open between calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="teacher", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
