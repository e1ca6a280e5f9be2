"""A saved episode as text to read: what each sailor wrote, how it was judged, and what came of it.

castaway episode data/marooned/evaluate/final/1000000000.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from castaway.datasets.episodes import Row


def episode_text(rows: Sequence[Row]) -> str:
    """The whole episode."""
    head, *moments = rows
    end = f"{'success' if head.get('success') else 'failure'}, {clean(head.get('ending', ''))}"
    lines = [f"Episode {head['task_id']}, played by the model: {head.get('seat', '')}", ""]
    for moment, following in pairwise(moments):
        lines += [title(moment), *_round(moment, following), ""]
    return "\n".join([*lines, f"The end: {end}."])


def title(moment: Row) -> str:
    """When it is."""
    return ", ".join(f"{name} {moment[name]}" for name in ("day", "turn") if name in moment).capitalize() or "Next"


def _round(moment: Row, following: Row) -> Iterator[str]:
    """What everybody did in one moment, and what was new after it."""
    said = moment["said"]
    done = following.get("actions", {})
    for agent in [*said, *(agent for agent in done if agent not in said)]:
        if agent in said:
            yield from _speech(agent, role_of(moment, agent), said[agent])
        else:
            yield f"  {agent}{role_of(moment, agent)} by script: {clean(done[agent])}"
    for name, tell in (("clues", _clue), ("messages", _message)):
        for entry in following.get(name, [])[len(moment.get(name, [])) :]:
            yield f"  * {tell(entry)}"
    if following.get("ship") != moment.get("ship"):
        yield f"  * The ship: {', '.join(f'{part} {points} %' for part, points in following['ship'].items())}."


def role_of(moment: Row, agent: str) -> str:
    """The agent's role in brackets, where the moment tells it."""
    role = moment.get("sailors", {}).get(agent, {}).get("role", "")
    return f" ({role})" if role else ""


def _speech(agent: str, role: str, said: Row) -> Iterator[str]:
    """What a model wrote, and the verdict."""
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
    """Text that a model may have written, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in text)
