"""A chat server with every fault there is: `python -m tests.castaway.teacher.fault_server [PORT]`.

It prints its port, by default a free one. The model's name says how it behaves, word by word: each try takes the next
one, the last one stays. GET /asked returns all questions that it got.
"""

import gzip
import json
import sys
import threading
import time
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from castaway.teacher.protocol import AND_MORE

ASKED: list[dict[str, Any]] = []
TRIES: Counter[str] = Counter()
LOCK = threading.Lock()
HANG = threading.Event()


def data_of(question: dict[str, Any]) -> dict[str, Any]:
    """What the teacher was shown."""
    text = question["messages"][1]["content"]
    found: dict[str, Any] = json.loads(text.removeprefix("<data>\n").removesuffix("\n</data>"))
    return found


def verdict(question: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What a good teacher says: right about legality, and the last legal action as its correction."""
    data = data_of(question)
    lines = [line for line in data["answered"].split("\n") if line.startswith("ACTION: ")]
    action = lines[0].removeprefix("ACTION: ") if lines else ""
    legal = [one for one in data["legal_actions"] if one != AND_MORE]
    valid = action in legal
    best = action if valid else legal[-1]
    return {"valid": valid, "action": best, "penalty": 0.0 if valid else -1.25, "critique": "So\nit is.", **changes}


ODD_VERDICTS: dict[str, dict[str, Any]] = {
    "illegal": {"valid": False, "action": "FLY HOME"},
    "harsh": {"penalty": -99.0},
    "generous": {"penalty": 7.0},
    "yes": {"valid": True},
    "no": {"valid": False},
    "types": {"penalty": "-1"},
    "extra": {"note": "x"},
    "nan": {"penalty": float("nan")},
    "verbose": {"critique": "x" * 10_000},
}


FORMS: dict[str, Any] = {
    "fenced": lambda said: {"content": f"```json\n{said}\n```"},
    "thinking": lambda said: {"content": f"<think>Is {{this}} legal?</think>\n{said}"},
    "closing": lambda said: {"content": f"{said}\nI hope that helps."},
    "parts": lambda said: {"content": [{"type": "text", "text": said}]},
    "tool": lambda said: {"content": None, "tool_calls": [{"function": {"name": "verdict", "arguments": said}}]},
    "reasoning": lambda said: {"content": "", "reasoning_content": f"Is it legal?\n{said}"},
    "surrogate": lambda said: {"content": said.replace("So\\n", "So\\ud800")},
    "refusal": lambda said: {"content": None, "refusal": "I cannot judge that."},
}
"""Messages that say the same in other forms, and two that cannot be read."""


class Handler(BaseHTTPRequestHandler):
    """Behaves as the model's name says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Quietly."""

    def do_GET(self) -> None:
        """What was asked."""
        with LOCK:
            self._send(200, json.dumps(ASKED).encode())

    def do_POST(self) -> None:
        """A chat completion, or the fault that is next."""
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with LOCK:
            ASKED.append({**question, "authorization": self.headers.get("authorization", "")})
            words = question["model"].split("-")
            turn = TRIES[question["model"] + question["messages"][1]["content"]]
            TRIES[question["model"] + question["messages"][1]["content"]] += 1
        self._behave(words[min(turn, len(words) - 1)], question)

    def _behave(self, word: str, question: dict[str, Any]) -> None:
        if word == "busy":
            self._send(429, b"{}", {"retry-after": "0.05"})
        elif word == "broken":
            self._send(503, b"oops")
        elif word == "half":
            # It minds odd numbers.
            if data_of(question)["answered"][-1] in "13579":
                self._send(503, b"oops")
            else:
                self._answer(question, json.dumps(verdict(question)))
        elif word == "mute" and data_of(question)["answered"][-1] in "13579":
            self._answer(question, "No.")
        elif word == "rejecting":
            self._send(400, b'{"error": "no such field"}')
        elif word == "slow":
            HANG.wait(30)
        elif word == "cut":
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"mess')
            self.close_connection = True
        elif word == "huge":
            self._send(200, b"x" * 1_000_000)
        elif word == "prose":
            self._answer(question, "I would rather not judge.")
        elif word == "html":
            self._send(200, b"<html>gateway</html>")
        elif word == "null":
            self._answer(question, None)
        elif word == "failing":
            self._send(200, b'{"error": {"message": "out of memory"}}')
        elif word == "later":
            self._send(429, b"{}", {"retry-after": formatdate(time.time() + 1, usegmt=True)})
        elif word == "dated":
            self._answer(question, json.dumps(verdict(question)), model=f"{question['model']}-2026-11-30")
        elif word in FORMS:
            self._answer(question, FORMS[word](json.dumps(verdict(question))))
        elif word == "alias":
            self._answer(question, json.dumps(verdict(question)), model="somebody-else")
        elif word == "gzip":
            body = {"model": word, "choices": [{"message": {"content": json.dumps(verdict(question))}}]}
            self._send(200, gzip.compress(json.dumps(body).encode()), {"content-encoding": "gzip"})
        else:
            self._answer(question, json.dumps(verdict(question, **ODD_VERDICTS.get(word, {}))))

    def _answer(self, question: dict[str, Any], said: Any, model: str = "") -> None:
        message = said if isinstance(said, dict) else {"content": said}
        body = {"model": model or question["model"], "choices": [{"message": message}]}
        self._send(200, json.dumps(body).encode())

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()
