"""What is said between us and a served teacher: a question, five fields of JSON, and once more if that was no answer.

Also the store of what was answered, so that nothing is paid for twice.
"""

import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from time import time
from typing import Annotated, Any, TypeVar

from jinja2 import StrictUndefined, Template
from pydantic import Field, ValidationError

from castaway.config.section import Section
from castaway.tasks.environment import Message, Rules
from castaway.tasks.verdict import WORST_PENALTY, Attempt, TeacherOutage, Verdict
from castaway.teacher.chat_client import ServerFault

Item = TypeVar("Item")

# The question: a rubric that a person can edit, and fenced-off data --------------------------------------------------

LONGEST_REPLY = 2000  # characters of a student's answer that the teacher is shown
MOST_ACTIONS = 80  # legal actions that the teacher is shown
ANY_TEXT, AND_MORE = "any text", "and others"
"""What stands there instead of a list where any text is legal, and at the end of a list that was cut."""


def question(rubric: str, rules: Rules, attempt: Attempt) -> list[Message]:
    """The messages that ask for a verdict; `rubric` is what the task says of itself (`Task.rubric`).

    All that comes from the game or from the student is one JSON object: a line of chat in it cannot look like the end
    of the data, since its line breaks, quotation marks and angle brackets are escaped.
    """
    legal = rules.legal_actions(attempt.prompt.observation)
    shown = [*legal[:MOST_ACTIONS], *([AND_MORE] if len(legal) > MOST_ACTIONS else [])]
    data = {
        "player": attempt.prompt.agent,
        "role": attempt.prompt.role,
        "saw": [message["content"] for message in attempt.prompt.messages],
        "legal_actions": shown or ANY_TEXT,  # an empty list would say that nothing is legal
        "answered": attempt.text[:LONGEST_REPLY],
    }
    fenced = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return [
        {"role": "system", "content": instructions(rubric)},
        {"role": "user", "content": f"<data>\n{fenced}\n</data>"},
    ]


@cache
def instructions(rubric: str) -> str:
    """What every question about a task begins with: the frame of verdict.jinja, and within it the task's rubric."""
    frame = (resources.files(__package__) / "verdict.jinja").read_text("utf-8")
    return Template(frame, undefined=StrictUndefined).render(rubric=rubric.strip())


# The answer, checked in full although the server was asked for these fields ------------------------------------------

MOST_SAID = 200  # characters of the student's action that are copied; who copies more is read all the same
LONGEST_TEXT = 4000  # characters of an answer that are read; what is longer is refused unread


class Answer(Section):
    """A model's opinion of one attempt, in its own words: nothing of it has been checked against the game."""

    said: Annotated[str, Field(json_schema_extra={"maxLength": MOST_SAID})] = ""  # the student's action, copied
    action: Annotated[str, Field(max_length=200)]  # what it would have executed
    valid: bool  # whether it takes the student's action for legal; after both, a small model has only to compare
    penalty: float  # by its own scale; see `on_the_scale`
    critique: Annotated[str, Field(max_length=500)]  # one sentence

    @property
    def on_the_scale(self) -> float:
        """The penalty, held between the worst there is and 0."""
        return max(WORST_PENALTY, min(0.0, self.penalty))

    @property
    def remark(self) -> str:
        return " ".join(self.critique.split())


def answer_schema() -> dict[str, Any]:
    """The JSON schema of an answer, as `response_format` takes it: without titles, all fields required.

    It lets the penalty be one of the scale's tenths only, which the reader does not insist on. A server that writes
    whatever fits lets an unsure model write digits without end, or a number that is larger than any float.
    """
    properties = Answer.model_json_schema()["properties"]
    for field in properties.values():
        del field["title"]
        field.pop("default", None)
    tenths = range(0, int(10 * WORST_PENALTY) - 1, -1)
    properties["penalty"]["enum"] = [tenth / 10 if tenth % 10 else tenth // 10 for tenth in tenths]
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_answer(text: str) -> Answer:
    """Read an answer; a ValueError says why it is none, in a few words that the model can be shown."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the answer has {len(text)} characters, at most {LONGEST_TEXT} are read")
    # Some models think first, fence the object as code, or add a closing sentence.
    said = text.rpartition("</think>")[2]
    start, end = said.find("{"), said.rfind("}") + 1
    try:
        return Answer.model_validate_json(said[start:end] if 0 <= start < end else text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the answer"
        raise ValueError(f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


def answer_text(verdict: Verdict, said: str) -> str:
    """A verdict on a reply with the action `said`, as an answer that the schema allows.

    It is written as a server with that schema makes a model write it.
    """
    tenths = round(10 * verdict.penalty)
    penalty = tenths / 10 if tenths % 10 else tenths // 10
    fields = {
        "said": said[:MOST_SAID],
        "action": verdict.action,
        "valid": verdict.valid,
        "penalty": penalty,
        "critique": verdict.critique,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


async def ask(
    complete: Callable[[Sequence[Message]], Awaitable[str]],
    messages: Sequence[Message],
    read: Callable[[str], Item],
    on_refused: Callable[[str], None] = lambda what: None,
) -> tuple[str, Item | None]:
    """Ask, and ask once more with the reason if `read` cannot use the answer, which its ValueError says in a few words.

    Returns the text of the last answer, and what was read of it; None if it cannot be used. `on_refused` is called
    after each answer that cannot be used, with `asked again` or `unusable`.
    """
    text = ""
    for what in ("asked again", "unusable"):
        text = await complete(messages)
        try:
            return text, read(text)
        except ValueError as error:
            on_refused(what)
            messages = asked_again(messages, text, str(error))
    return text, None


def asked_again(messages: Sequence[Message], answer: str, reason: str) -> list[Message]:
    return [
        *messages,
        {"role": "assistant", "content": answer[:LONGEST_REPLY]},
        {"role": "user", "content": f"That cannot be used: {reason}. Answer again, with one JSON object."},
    ]


def outage(fault: ServerFault) -> TeacherOutage:
    return TeacherOutage(f"{fault}; start it and run the stage again, which goes on where it stopped")


# What was answered ---------------------------------------------------------------------------------------------------

PATIENCE_SECONDS = 30.0  # how long a process waits for another one that writes


def question_key(model: str, messages: Sequence[Message]) -> str:
    """The key of a question in the cache: an answer depends on the model and on all that it is shown."""
    parts = [model, *(message["content"] for message in messages)]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8")).hexdigest()


class AnswerCache:
    """Texts by key, in an SQLite file for several processes; above `limit` rows, what was not used for longest goes."""

    def __init__(self, path: Path, limit: int = 1_000_000) -> None:
        self._path, self._limit = path, limit
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT, used REAL)")
            connection.execute("CREATE INDEX IF NOT EXISTS by_use ON answers (used)")

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """What is stored of these, all of it now used."""
        if not keys:
            return {}
        select = "SELECT key, text FROM answers WHERE key = ?"
        with self._connection() as connection:
            stored = dict(filter(None, (connection.execute(select, (key,)).fetchone() for key in keys)))
            now = time()
            connection.executemany("UPDATE answers SET used = ? WHERE key = ?", [(now, key) for key in stored])
        return stored

    def put(self, rows: dict[str, str]) -> None:
        if not rows:
            return
        with self._connection() as connection:
            now = time()
            connection.executemany(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(key, text, now) for key, text in rows.items()]
            )
            surplus = "SELECT key FROM answers ORDER BY used DESC, key DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM answers WHERE key IN ({surplus})", [self._limit])

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a connection must not be shared with a forked child, so none is kept.

        It asks for the right to write at once: who has begun to read cannot wait for another one that writes.
        """
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection
