"""A teacher behind a server: a language model judges, and the rules of the game have the last word; or it writes.

The engine knows what is legal; the model is asked for what the engine cannot know: what was meant, how bad it was, and
why. So its `valid` is compared and counted, but never believed, its action is executed only if it is legal now, and its
penalty is held on the scale. Whatever it cannot give, the rules give, and the verdict's `source` says so.
"""

import asyncio
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Literal

from castaway.config.key import secret
from castaway.config.sections import TeacherParams
from castaway.tasks.environment import Message, Rules
from castaway.tasks.task import WritingTask, WrittenText
from castaway.tasks.verdict import Attempt, Teacher, TeacherOutage, Verdict
from castaway.teacher import protocol
from castaway.teacher.agreement import UNUSABLE, dispute
from castaway.teacher.chat_client import ChatClient, Endpoint, LoopThread, ServerFault
from castaway.teacher.protocol import Answer, AnswerCache
from castaway.teacher.rules import Corrector, RulesTeacher

Question = list[Message]
Response = str | Answer | ServerFault | None
"""A usable answer as text, a refused one that could be read, a fault, or nothing that could be read."""
Observer = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""Takes a call for a trace: its name, its inputs and outputs, and when it began and ended, in seconds since 1970."""
RECENT, FEWEST = 100, 20
"""Answers that the share of unusable ones is taken of, and how many there have to be before it says anything."""
ONE_IN = 50  # one in this many questions is shown to the observer; which one depends on the question alone


@dataclass(frozen=True)
class ServedOptions:
    """When the model is asked, and what its word counts."""

    cascade: bool = False  # ask only about what the rules find fault with
    override_legal: bool = False
    """Replace a legal action that the model calls invalid by the model's, if that is legal too."""
    on_outage: Literal["rules", "pause"] = "pause"  # go on with the verdicts of the rules, or stop
    most_unusable: float = 0.2  # largest share of unusable answers that nothing is said of
    on_unusable: Literal["rules", "pause"] = "rules"


class ServedTeacher:
    """A `Teacher` made of a server and an environment's `Rules`; a sample of the calls is shown to `observer`."""

    def __init__(
        self,
        rubric: str,
        rules: Rules,
        endpoint: Endpoint,
        options: ServedOptions,
        cache: AnswerCache | None = None,
        observer: Observer = lambda name, inputs, outputs, began, ended: None,
        corrector: Corrector | None = None,
    ) -> None:
        self._observer = observer
        self._observed: deque[tuple[dict[str, Any], dict[str, Any], float, float]] = deque()
        self._rubric, self._rules, self._options = rubric, rules, options
        self._by_rules = RulesTeacher(rules, corrector)
        self._model, self._cache = endpoint.model, cache
        self._schema = protocol.answer_schema()
        self._loop = LoopThread("teacher")
        self._client = ChatClient(endpoint)
        self._tally: Counter[str] = Counter()
        self._recent: deque[bool] = deque(maxlen=RECENT)  # whether each of the last answers was unusable
        self._warned = False
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, float]:
        """What happened so far: attempts, cache hits, tries, faults by kind, answers that could not be used ..."""
        return {**(self._tally + self._client.counts), "unusable_share": self.unusable_share}

    @property
    def unusable_share(self) -> float:
        """The share of unusable ones among the last answers, stored ones included."""
        with self._lock:
            return sum(self._recent) / max(1, len(self._recent))

    def close(self) -> None:
        self._loop.run(self._client.close())
        self._loop.stop()

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """One verdict for each attempt, all that need the model asked side by side; TeacherOutage if it is to pause."""
        self._count("attempts", len(attempts))
        verdicts = self._by_rules.judge(attempts)
        asked = [
            number
            for number, verdict in enumerate(verdicts)
            if not (self._options.cascade and verdict.valid and verdict.penalty == 0)
        ]
        questions = {number: protocol.question(self._rubric, self._rules, attempts[number]) for number in asked}
        keys = {number: protocol.question_key(self._model, messages) for number, messages in questions.items()}
        stored = self._cache.get(sorted(set(keys.values()))) if self._cache else {}
        known = {k: stored[k] for n, k in keys.items() if k in stored and self._usable(attempts[n], stored[k])}
        self._count("cached", sum(key in known for key in keys.values()))
        # The same question is asked once, however many students ask it in one round.
        new = {keys[number]: number for number in reversed(asked) if keys[number] not in known}
        answers = self._loop.run(self._ask_all({key: (attempts[n], questions[n]) for key, n in new.items()}))
        usable = {key: text for key, text in answers.items() if isinstance(text, str)}
        if self._cache:
            self._cache.put(usable)
        while self._observed:
            self._observer("verdict", *self._observed.popleft())
        faults = [answer for answer in answers.values() if isinstance(answer, ServerFault)]
        self._count("outages", len(faults))
        if faults and self._options.on_outage == "pause":  # what it did answer is stored by now, and not asked again
            raise protocol.outage(faults[0])
        known = {**known, **usable}
        for number in asked:
            attempt, by_rules, text = attempts[number], verdicts[number], known.get(keys[number])
            refused = answers.get(keys[number])
            if text is not None:
                verdicts[number] = self._verdict(attempt, by_rules, protocol.parse_answer(text))
            elif not isinstance(refused, ServerFault):
                disputed = dispute(refused, by_rules, impossible=True) if isinstance(refused, Answer) else None
                verdicts[number] = replace(by_rules, source=UNUSABLE, dispute=disputed)
        self._watch([verdicts[number].source for number in asked])
        return verdicts

    def _watch(self, sources: Sequence[str]) -> None:
        """Warn once, or pause, if too many of the last answers could not be used: the rules judge, not the model."""
        with self._lock:
            self._recent.extend(source == UNUSABLE for source in sources if source != "rules")
            enough = len(self._recent) >= FEWEST
        share, most = self.unusable_share, self._options.most_unusable
        if not enough or share <= most:
            return
        told = (
            f"{share:.0%} of the last answers of the teacher {self._model} could not be used, more than "
            f"teacher.most_unusable ({most:.0%}), and the rules judged instead; `castaway teacher check` shows some"
        )
        if self._options.on_unusable == "pause":
            raise TeacherOutage(f"{told}; name another model")
        if not self._warned:
            print(f"warning: {told}", file=sys.stderr, flush=True)
        self._warned = True

    def _count(self, name: str, number: int) -> None:
        with self._lock:  # several threads count
            self._tally[name] += number

    async def _ask_all(self, questions: dict[str, tuple[Attempt, Question]]) -> dict[str, Response]:
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(self._ask_one(key, *asked)) for key, asked in questions.items()}
        return {key: task.result() for key, task in tasks.items()}

    async def _ask_one(self, key: str, attempt: Attempt, messages: Question) -> Response:
        began = time()
        result = await self._ask(attempt, messages)
        if int(key[:8], 16) % ONE_IN == 0:
            said = result.model_dump() if isinstance(result, Answer) else str(result)
            self._observed.append(({"messages": messages}, {"answer": said}, began, time()))
        return result

    async def _ask(self, attempt: Attempt, messages: Question) -> Response:
        """A usable answer, asked for twice at most; else the last one that could be read, or the fault."""
        readable: list[Answer] = []

        def read(text: str) -> Answer:
            readable.append(protocol.parse_answer(text))
            self._check(attempt, readable[-1])
            return readable[-1]

        try:
            complete = partial(self._client.complete, schema=self._schema)
            text, answer = await protocol.ask(complete, messages, read, on_refused=lambda what: self._count(what, 1))
        except ServerFault as fault:
            return fault
        if answer is not None:
            return text
        return readable[-1] if readable else None

    def _check(self, attempt: Attempt, answer: Answer) -> None:
        """Refuse what is built on an error about the game; ValueError says which, so that the model can be told."""
        observation = attempt.prompt.observation
        illegal = self._rules.refusal(observation, attempt.reply.action)
        if illegal and answer.valid:
            raise ValueError(f"valid: the player's action is not legal: {illegal.sentence}")
        if illegal is None and (answer.valid or not self._options.override_legal):
            return
        if refusal := self._rules.refusal(observation, answer.action):
            raise ValueError(f"action: {answer.action[:60]!r} is not legal: {refusal.sentence}")

    def _usable(self, attempt: Attempt, text: str) -> bool:
        """Whether an answer would pass now: a stored one may be older than the rules, or of other options."""
        try:
            self._check(attempt, protocol.parse_answer(text))
        except ValueError:
            return False
        return True

    def _verdict(self, attempt: Attempt, by_rules: Verdict, answer: Answer) -> Verdict:
        given = replace(
            by_rules,
            # What the rules know to be wrong, a model cannot forgive.
            penalty=min(answer.on_the_scale, by_rules.penalty),
            critique=answer.remark,
            source=self._model,
            dispute=dispute(answer, by_rules),
        )
        if by_rules.valid and (answer.valid or not self._options.override_legal):
            return given
        reasoning = by_rules.reasoning
        if answer.action != by_rules.action:
            reasoning = self._rules.reason(attempt.prompt.observation, answer.action)
        return replace(given, valid=False, action=answer.action, reasoning=reasoning, better="")


# The teacher that params.yaml names ----------------------------------------------------------------------------------


def endpoint_of(params: TeacherParams) -> Endpoint:
    return Endpoint(key=secret(), **params.model_dump(include={field.name for field in fields(Endpoint)}))


@contextmanager
def chosen_teacher(
    params: TeacherParams, rubric: str, rules: Rules, store: Path, observer: Observer, corrector: Corrector | None
) -> Iterator[Teacher]:
    """The teacher, closed afterwards. A served one keeps its answers in `store`, and shows a sample to `observer`."""
    if params.kind == "rules":
        yield RulesTeacher(rules, corrector)
        return
    options = ServedOptions(**params.model_dump(include={field.name for field in fields(ServedOptions)}))
    cache, endpoint = AnswerCache(store), endpoint_of(params)
    with closing(ServedTeacher(rubric, rules, endpoint, options, cache, observer, corrector)) as teacher:
        yield teacher


# A teacher that writes -----------------------------------------------------------------------------------------------

MOST_REQUESTS = 3  # requests for each text that is wanted, at most: some are refused, or are duplicates
ANSWER_TOKENS = 512


def written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask, count: int) -> list[WrittenText]:
    """As many different texts as are wanted, in the order of their requests; fewer where the teacher repeats itself.

    The same answers give the same list, whatever was answered when. A request that was answered once is never sent
    again, by whichever run: a stage that was killed, or that lost its server (TeacherOutage), goes on where it stopped.
    """
    return asyncio.run(_written(replace(endpoint, answer_tokens=ANSWER_TOKENS), cache, task, count))


async def _written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask, count: int) -> list[WrittenText]:
    client = ChatClient(endpoint)
    taken: list[WrittenText] = []
    seen, number = set(task.known), 0
    try:
        while len(taken) < count and number < MOST_REQUESTS * count:
            wave = range(number, number + count - len(taken))
            number = wave.stop
            items = await asyncio.gather(*(_item(client, endpoint.model, cache, task, one) for one in wave))
            for fault in [item for item in items if isinstance(item, ServerFault)]:
                raise protocol.outage(fault)
            for item in items:
                if isinstance(item, WrittenText) and item.identity not in seen:
                    seen.add(item.identity)
                    taken.append(item)
    finally:
        await client.close()
    return taken


async def _item(
    client: ChatClient, model: str, cache: AnswerCache, task: WritingTask, number: int
) -> WrittenText | ServerFault | None:
    """What was written for a request, None if it cannot be used; answers come from the cache where it has them."""

    async def complete(messages: Sequence[Message]) -> str:
        key = protocol.question_key(model, messages)
        stored = cache.get([key])
        if key not in stored:
            stored = {key: await client.complete(messages, task.schema)}
            cache.put(stored)
        return stored[key]

    try:
        _, item = await protocol.ask(complete, task.request(number), lambda text: task.read(number, text))
        return item
    except ServerFault as fault:
        # Returned, not raised: the other requests of the wave are to end and to be kept.
        return fault
