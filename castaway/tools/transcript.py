"""Formats a saved episode as text: what each agent wrote, the verdict on it, and the result.

castaway episode data/marooned/evaluate/final/1015000000.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from castaway.datasets.episodes import Row


def episode_text(rows: Sequence[Row]) -> str:
    """The text of a whole episode."""
    head, *moments = rows
    end = f"{'success' if head.get('success') else 'failure'}, {clean(head.get('ending', ''))}"
    lines = [f"Episode {head['task_id']}, played by the model: {head.get('seat', '')}", ""]
    for moment, following in pairwise(moments):
        lines += [title(moment), *happenings(moment, following), ""]
    return "\n".join([*lines, f"The end: {end}."])


def title(moment: Row) -> str:
    """The heading of a moment: `Day 1, turn 2`, or `Next` if the task has neither days nor turns."""
    return ", ".join(f"{name} {moment[name]}" for name in ("day", "turn") if name in moment).capitalize() or "Next"


def happenings(moment: Row, following: Row) -> Iterator[str]:
    """Lines about what all agents did in one moment, and what was new in the following one."""
    said = moment["said"]
    done = following.get("actions", {})
    for agent in [*said, *(agent for agent in done if agent not in said)]:
        yield from _question(moment, agent)
        if agent in said:
            yield from _reply(agent, role_of(moment, agent), said[agent])
        else:
            yield f"  {agent}{role_of(moment, agent)} by script: {clean(done[agent])}"
    for name, line_of in (("clues", _clue), ("messages", _message)):
        for entry in following.get(name, [])[len(moment.get(name, [])) :]:
            yield f"  * {line_of(entry)}"
    if following.get("ship") != moment.get("ship"):
        yield f"  * The ship: {', '.join(f'{part} {points} %' for part, points in following['ship'].items())}."


def role_of(moment: Row, agent: str) -> str:
    """The agent's role in parentheses; empty if the moment does not contain it."""
    role = moment.get("sailors", {}).get(agent, {}).get("role", "")
    return f" ({role})" if role else ""


def _question(moment: Row, agent: str) -> Iterator[str]:
    """Lines with the question that the agent answers and what is known about it, if the moment contains one."""
    if question := moment.get("questions", {}).get(agent):
        yield f"  {agent} is asked: {clean(question['asked'])} ? ({clean(question['kind'])})"
        yield f"      known: {clean(question['fact'])}"


def _reply(agent: str, role: str, said: Row) -> Iterator[str]:
    """Lines with a model's reply and the verdict on it."""
    first, *others = clean(said.get("text", "")).split("\n")
    yield f"  {agent}{role}: {first}"
    yield from (f"      {line}" for line in others)
    critique = f" {clean(said['critique'])}" if said.get("critique") else ""
    penalty = f" Penalty {said['penalty']:g}." if said.get("penalty") else ""
    if said.get("valid"):
        yield f"      -> valid.{critique}{penalty}"
    else:
        yield f"      -> not valid.{critique}{penalty} Executed: {clean(said.get('action', ''))}"


def _clue(entry: Row) -> str:
    return clean(entry.get("text", ""))


def _message(entry: Row) -> str:
    return clean(f"{entry.get('speaker', '')} says: {entry.get('text', '')}")


def clean(text: str) -> str:
    """The text with control characters escaped, as text of a model could contain commands to the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in text)
