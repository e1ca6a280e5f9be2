"""A chat server, in a thread, that writes exercises for STRICTBOT as its model's name says, and counts requests."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from tests.castaway.teacher import fault_server

PLACES = ["Turin", "Lyon", "Porto", "Ghent", "Basel", "Malmo", "Cork", "Graz", "Split", "Brno"]


def exercise(number: int, kind: str) -> dict[str, str]:
    """A good one."""
    place, other = PLACES[number % 10], PLACES[(number + 1) % 10]
    fact, false = f"it is {place}", f"it is {other}"
    asked = f"where would you look for ship number {number}"
    if kind in ("factual error", "misconception"):
        asked = f"did you hear that the home of ship number {number} is {other}"
    elif kind == "trivial":
        asked = f"where does ship number {number} of {place} come from"
    elif kind == "poor logic":
        asked, fact, false = f"I sang and ship number {number} sank so was it me", "it is perhaps chance", "it is magic"
    return {
        "asked": asked,
        "fact": fact,
        "false": false,
        "help": f"I looked it up for you, {fact} in that book",
        "challenge": f"compare it with the book, {fact} there",
        "correction": f"the book says otherwise, {fact} there",
    }


class WritingServer(ThreadingHTTPServer):
    """`good` writes what it should; `sloppy` only when asked again; `same` one exercise for ever; `prose` none.

    `fails_after` is how many answers it gives before it fails.
    """

    def __init__(self, fails_after: int | None = None) -> None:
        """Take a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.fails_after = fails_after
        self.asked: Counter[int] = Counter()
        self.answered = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """As clients take it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(fault_server.Handler):
    """One chat completion."""

    server: WritingServer

    def do_POST(self) -> None:
        """Write, or fail."""
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = fault_server.data_of(question)
        with self.server.lock:
            self.server.asked[data["number"]] += 1
            self.server.answered += 1
            failing = self.server.fails_after is not None and self.server.answered > self.server.fails_after
        text = _text(question["model"], data["number"], data["kind"], len(question["messages"]) > 2)
        self._send(503, b"oops") if failing else self._answer(question, text)


def _text(model: str, number: int, kind: str, again: bool) -> str:
    if model == "prose" or (model == "sloppy" and not again):
        return "Here is an exercise."
    return json.dumps(exercise(0 if model == "same" else number, kind))


@contextmanager
def serving(fails_after: int | None = None) -> Iterator[WritingServer]:
    """A server as long as the body lasts."""
    server = WritingServer(fails_after)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
