"""A teacher behind a server: a language model judges, and the rules of the game have the last word.

The engine knows what is legal; the model is asked for what the engine cannot know: what was meant, how bad it was, and
why. So its `valid` is compared and counted, but never believed, its action is executed only if it is legal now, and its
penalty is held on the scale. Whatever it cannot give, the rules give, and the verdict's `source` says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any, Literal

from castaway.tasks.environment import Message, Rules
from castaway.teacher.agreement import dispute
from castaway.teacher.answer import Answer, answer_schema, parse_answer
from castaway.teacher.ask import ask, outage, question_key
from castaway.teacher.base import Attempt, Verdict
from castaway.teacher.cache import AnswerCache
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway.teacher.loop import LoopThread
from castaway.teacher.question import question
from castaway.teacher.rules import Corrector, RulesTeacher

Question = list[Message]
Found = str | Answer | ServerFault | None
"""A usable answer as text, a refused one that could be read, a fault, or nothing that could be read."""
Observer = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""Takes a call for a trace: its name, its inputs and outputs, and when it began and ended, in seconds since 1970."""
ONE_IN = 50
"""One of so many questions is shown to the observer; which one depends on the question alone."""


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
        rubric: str,
        rules: Rules,
        endpoint: Endpoint,
        conduct: Conduct,
        cache: AnswerCache | None = None,
        observer: Observer = lambda name, inputs, outputs, began, ended: None,
        corrector: Corrector | None = None,
    ) -> None:
        """Judge moves of the task that `rubric` describes; nothing is asked yet.

        A sample of the calls is shown to `observer`; `corrector` corrects legal moves.
        """
        self._observer = observer
        self._observed: deque[tuple[dict[str, Any], dict[str, Any], float, float]] = deque()
        self._rubric, self._rules, self._conduct = rubric, rules, conduct
        self._by_rules = RulesTeacher(rules, corrector)
        self._model, self._cache = endpoint.model, cache
        self._schema = answer_schema()
        self._loop = LoopThread("teacher")
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
        questions = {number: question(self._rubric, self._rules, attempts[number]) for number in asked}
        keys = {number: question_key(self._model, messages) for number, messages in questions.items()}
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
        while self._observed:
            self._observer("verdict", *self._observed.popleft())
        self._handle_faults([answer for answer in found.values() if isinstance(answer, ServerFault)])
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

    def _handle_faults(self, faults: Sequence[ServerFault]) -> None:
        """Go on without the model, or stop; what it did answer is stored by now, and not asked again."""
        self._count("outages", len(faults))
        if faults and self._conduct.on_outage == "pause":
            raise outage(faults[0])

    async def _ask_all(self, questions: dict[str, tuple[Attempt, Question]]) -> dict[str, Found]:
        """The results of all questions, by key."""
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(self._ask_one(key, *asked)) for key, asked in questions.items()}
        return {key: task.result() for key, task in tasks.items()}

    async def _ask_one(self, key: str, attempt: Attempt, messages: Question) -> Found:
        began = time()
        found = await self._ask(attempt, messages)
        if int(key[:8], 16) % ONE_IN == 0:
            said = found.model_dump() if isinstance(found, Answer) else str(found)
            self._observed.append(({"messages": messages}, {"answer": said}, began, time()))
        return found

    async def _ask(self, attempt: Attempt, messages: Question) -> Found:
        """An answer that can be used, asked for once more if the first cannot.

        Failing that, the last one that could be read, if only to report on it; or the fault that prevents any.
        """
        readable: list[Answer] = []

        def read(text: str) -> Answer:
            readable.append(parse_answer(text))
            self._check(attempt, readable[-1])
            return readable[-1]

        try:
            answered = await ask(
                lambda asked: self._client.complete(asked, self._schema),
                messages,
                read,
                on_refused=lambda what: self._count(what, 1),
            )
        except ServerFault as fault:
            return fault
        if answered.item is not None:
            return answered.text
        return readable[-1] if readable else None

    def _check(self, attempt: Attempt, answer: Answer) -> None:
        """Refuse what is built on an error about the game; ValueError says which, so that the model can be told."""
        observation = attempt.prompt.observation
        illegal = self._rules.refusal(observation, attempt.reply.action)
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
            # What the rules know to be wrong, a model cannot forgive.
            penalty=min(answer.on_the_scale, by_rules.penalty),
            critique=answer.remark,
            source=self._model,
            dispute=dispute(answer, by_rules),
        )
        if by_rules.valid and (answer.valid or not self._conduct.override_legal):
            return given
        reasoning = by_rules.reasoning
        if answer.action != by_rules.action:
            reasoning = self._rules.reason(attempt.prompt.observation, answer.action)
        return replace(given, valid=False, action=answer.action, reasoning=reasoning, better="")


async def _made(endpoint: Endpoint) -> ChatClient:
    """The client belongs to the loop that it is made in."""
    return ChatClient(endpoint)
