"""Formats a saved episode as text: what each agent wrote, the verdict on it, and the result.

A task's snapshot may hold anything under any key. What has the shape that a shipped task gives it is put into words,
news of another shape is shown as JSON, and the rest is left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from castaway.rollout.episodes import Row


def episode_text(rows: Sequence[Row]) -> str:
    head, *moments = rows
    lines = [heading_of(head), ""]
    for moment, following in pairwise(moments):
        lines += [title(moment), *_board(moment), *happenings(moment, following), ""]
    return "\n".join([*lines, *(_board(moments[-1]) if moments else ()), end_of(head)])


def last_turn(rows: Sequence[Row]) -> list[str]:
    head, *moments = rows
    return [*(line for pair in list(pairwise(moments))[-1:] for line in happenings(*pair)), end_of(head)]


def heading_of(head: Row) -> str:
    return f"Episode {head['task_id']}, seat of the model: {head.get('seat', '')}"


def end_of(head: Row) -> str:
    return f"The end: {'success' if head.get('success') else 'failure'}, {clean(head.get('ending', ''))}."


def title(moment: Row) -> str:
    """The heading of a moment: `Day 1, turn 2`, or `Next` if the task has neither days nor turns."""
    return clean(", ".join(f"{name} {moment[name]}" for name in in_heading(moment))).capitalize() or "Next"


def in_heading(moment: Row) -> list[str]:
    """Which of the keys `day` and `turn` stand in the heading of a moment."""
    return [name for name in ("day", "turn") if isinstance(moment.get(name), str | int | float)]


def happenings(moment: Row, following: Row) -> Iterator[str]:
    """Lines about what all agents did in one moment, and what was new in the following one."""
    said = moment["said"]
    done = _mapping(following.get("actions"))
    for agent in [*said, *(agent for agent in done if agent not in said)]:
        question = _mapping(_mapping(moment.get("questions")).get(agent))
        if all(isinstance(question.get(name), str) for name in ("asked", "kind", "fact")):
            yield f"  {agent} is asked: {clean(question['asked'])} ? ({clean(question['kind'])})"
            yield f"      known: {clean(question['fact'])}"
        role = _mapping(_mapping(moment.get("sailors")).get(agent)).get("role")
        name = f"{agent} ({role})" if isinstance(role, str) and role else agent
        if agent in said:
            yield from _reply(name, said[agent])
        else:
            yield f"  {name} by script: {_plain(done[agent])}"
    for key in ("clues", "messages"):
        for entry in _list(following.get(key))[len(_list(moment.get(key))) :]:
            yield f"  * {_news(entry)}"
    ship = _mapping(following.get("ship"))
    if ship and ship != moment.get("ship") and all(isinstance(points, int | float) for points in ship.values()):
        yield f"  * The ship: {', '.join(f'{part} {points} %' for part, points in ship.items())}."


def _board(moment: Row) -> Iterator[str]:
    """The lines of a position that is drawn as text."""
    drawn = moment.get("state")
    yield from (f"  {clean(line)}" for line in (drawn.rstrip().split("\n") if isinstance(drawn, str) else ()))


def _reply(name: str, said: Row) -> Iterator[str]:
    first, *others = clean(said.get("text", "")).split("\n")
    yield f"  {name}: {first}"
    yield from (f"      {line}" for line in others)
    verdict = "valid." if said.get("valid") else "not valid."
    critique = f" {clean(said['critique'])}" if said.get("critique") else ""
    penalty = f" Penalty {said['penalty']:g}." if said.get("penalty") else ""
    executed = "" if said.get("valid") else f" Executed: {clean(said.get('action', ''))}"
    yield f"      -> {verdict}{critique}{penalty}{executed}"


def _news(entry: Any) -> str:
    """A clue, `{"text": ...}`, or a message, which has a `speaker` too."""
    fields = _mapping(entry)
    if "text" not in fields:
        return _plain(entry)
    speaker = f"{_plain(fields['speaker'])} says: " if "speaker" in fields else ""
    return f"{speaker}{_plain(fields['text'])}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _plain(value: Any) -> str:
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def clean(text: str) -> str:
    """The text with control characters escaped, as text of a model could contain commands to the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in text)
