"""Questions to an OpenAI-compatible server, many at once, each answered or refused before its deadline.

vLLM and `transformers serve` speak `/v1/chat/completions`. The answer is constrained by `response_format` where the
server can do that; where it cannot it ignores the field, and the reader of the answer has to check.
"""

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import Any, Literal, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_random_exponential

from castaway.tasks.environment import Message

LARGEST_BODY = 262_144  # bytes of a response that are read; a server that sends more is not believed
COOLING_SECONDS = 10.0

Result = TypeVar("Result")

FaultKind = Literal[
    "refused", "timeout", "busy", "server error", "rejected", "truncated", "not JSON", "too long", "down"
]


class ServerFault(Exception):
    """A question that the server did not answer: what went wrong, and whether asking again may help."""

    def __init__(self, kind: FaultKind, sentence: str, passing: bool, wait: float = 0.0) -> None:
        """`wait` is how many seconds the server asked us to leave it alone."""
        super().__init__(sentence)
        self.kind, self.passing, self.wait = kind, passing, wait


@dataclass(frozen=True)
class Endpoint:
    url: str  # as OpenAI's clients take it: it ends in /v1
    model: str
    key: str = field(default="", repr=False)
    concurrency: int = 64  # questions that are open at one time
    attempt_seconds: float = 30.0  # how long one try may take
    deadline_seconds: float = 120.0
    """How long a question may take, all tries and pauses together, from the moment that it is sent."""
    patience_seconds: float = 60.0  # how long nothing but failures is borne before the server counts as down
    answer_tokens: int = 192


class CircuitBreaker:
    """Leaves a server that is long out of order alone for a while (Nygard, Release It!). It is for one thread.

    Closed, everything passes. When calls have done nothing but fail for `patience` seconds it opens, and nothing
    passes. After `cooling` seconds one call is let through: if that succeeds it closes, if not it stays open for as
    long again.

    Seconds and not a count of failures, because a server that restarts fails a hundred parallel calls at once.
    """

    def __init__(self, patience: float, cooling: float, clock: Callable[[], float] = monotonic) -> None:
        self._patience, self._cooling, self._clock = patience, cooling, clock
        self._failing_since: float | None = None
        self._opened: float | None = None

    def allow(self) -> bool:
        """Whether a call may be made. When it has cooled down, this lets one through, and no second one with it."""
        if self._opened is None:
            return True
        if self._clock() - self._opened < self._cooling:
            return False
        self._opened = self._clock()
        return True

    def succeeded(self) -> None:
        self._failing_since = self._opened = None

    def failed(self) -> None:
        """A call failed in a way that speaks of the server, not of the question."""
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            self._opened = now


class ChatClient:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._breaker = CircuitBreaker(endpoint.patience_seconds, COOLING_SECONDS)
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        limits = httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency)
        # The environment's proxies are not for a server that we were given the address of.
        self._http = httpx.AsyncClient(
            headers=headers, limits=limits, timeout=endpoint.attempt_seconds, follow_redirects=False, trust_env=False
        )
        self.counts: Counter[str] = Counter()  # tries, tokens of answers, and faults by kind
        self._last = ""

    async def close(self) -> None:
        await self._http.aclose()

    async def complete(self, messages: Sequence[Message], schema: dict[str, Any]) -> str:
        """The text of the model's answer; ServerFault if there is none, for good."""
        question = {
            "model": self._endpoint.model,
            "messages": list(messages),
            "max_tokens": self._endpoint.answer_tokens,
            "temperature": 0.0,
            "seed": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "schema": schema, "strict": True},
            },
        }
        async with self._slots:
            try:
                async with asyncio.timeout(self._endpoint.deadline_seconds):
                    async for attempt in retrying(self._endpoint.deadline_seconds):
                        with attempt:
                            return await self._try(question)
            except TimeoutError:
                fault = ServerFault("timeout", self._says("did not answer before the deadline"), False)
                self._note(fault)
                raise fault from None
        raise AssertionError("tenacity ends with a result or an exception")

    async def _try(self, question: dict[str, Any]) -> str:
        if not self._breaker.allow():
            self.counts["down"] += 1
            raise ServerFault("down", f"{self._last}, and is not asked for a while", False)
        self.counts["tries"] += 1
        try:
            text = self._answer(await self._post(question))
        except ServerFault as fault:
            self._note(fault)
            raise
        self._breaker.succeeded()
        return text

    async def _post(self, question: dict[str, Any]) -> bytes:
        url = f"{self._endpoint.url.rstrip('/')}/chat/completions"
        try:
            limit = asyncio.timeout(self._endpoint.attempt_seconds)
            async with limit, self._http.stream("POST", url, json=question) as response:
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > LARGEST_BODY:
                        raise ServerFault("too long", self._says(f"sent more than {LARGEST_BODY} bytes"), True)
        except (TimeoutError, httpx.TimeoutException):
            raise ServerFault("timeout", self._says("was too slow"), True) from None
        except httpx.ConnectError:
            raise ServerFault("refused", self._says("takes no connections"), True) from None
        except httpx.HTTPError as error:
            raise ServerFault("truncated", self._says(f"broke off ({type(error).__name__})"), True) from None
        status = response.status_code
        if status == 429:
            raise ServerFault("busy", self._says("is busy"), True, _seconds(response.headers.get("retry-after")))
        if status >= 500:
            raise ServerFault("server error", self._says(f"failed with status {status}"), True)
        if status != 200:
            reason = " ".join(body[:300].decode("utf-8", "replace").split())
            raise ServerFault("rejected", self._says(f"rejected the question with status {status}: {reason}"), False)
        return body

    def _answer(self, body: bytes) -> str:
        """The text within a response; one that was cut off for its length is the reader's to refuse."""
        try:
            completion = json.loads(body)
            if told := completion.get("error"):  # some servers send it with status 200
                raise ServerFault("server error", self._says(f"failed: {json.dumps(told)[:300]}"), True)
            text, model = _text_of(completion["choices"][0]["message"]), completion["model"]
            self.counts["answer tokens"] += int((completion.get("usage") or {}).get("completion_tokens", 0))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise ServerFault("not JSON", self._says("sent something other than a chat completion"), True) from None
        # An alias, or the date of a snapshot; `transformers serve` appends the revision to the name.
        if (name := str(model)[:80]).split("@")[0] != self._endpoint.model.split("@")[0]:
            if not self.counts[f"answered as {name}"]:
                print(f"warning: {self._says(f'answers as {name!r}')}", file=sys.stderr, flush=True)
            self.counts[f"answered as {name}"] += 1
        return text

    def _note(self, fault: ServerFault) -> None:
        self.counts[fault.kind] += 1
        self._last = str(fault)
        if fault.kind in ("refused", "timeout", "server error", "truncated", "not JSON", "too long"):
            self._breaker.failed()

    def _says(self, what: str) -> str:
        return f"the teacher's server at {self._endpoint.url} (model {self._endpoint.model}) {what}"


def _text_of(message: dict[str, Any]) -> str:
    """What a message says: its text, its parts, the arguments of a call of a tool, why it refuses, or its thoughts."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    if not content and message.get("tool_calls"):
        content = message["tool_calls"][0]["function"]["arguments"]
    # A server that takes the train of thought apart may take the whole answer for one.
    thought = message.get("reasoning_content") or message.get("reasoning")
    text = content or message.get("refusal") or thought or message["content"]
    if not isinstance(text, str):
        raise TypeError
    return text


class LoopThread:
    """An event loop in a thread of its own, for callers that have none; it keeps connections open between calls."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def retrying(deadline_seconds: float) -> AsyncRetrying:
    """Attempts until one works, its `ServerFault` is not a passing one, or no time is left for another pause."""
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, ServerFault) and error.passing),
        stop=stop_before_delay(deadline_seconds),
        wait=_pause,
        reraise=True,
    )


def _pause(state: RetryCallState) -> float:
    """Exponential with full jitter, so that parallel questions do not come back together; at least what was asked."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait if isinstance(error, ServerFault) else 0.0
    return max(asked, wait_random_exponential(multiplier=0.25, max=8.0)(state))


def _seconds(header: str | None) -> float:
    """The seconds of a Retry-After header, which may be a date."""
    with suppress(ValueError):
        return max(0.0, float(header or 0.0))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(header or "").timestamp() - time())
    return 0.0
