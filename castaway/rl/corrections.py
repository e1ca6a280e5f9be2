"""What the student got wrong, with what it should have written: the material of correction-SFT."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from castaway.chat import Reply, parse_reply
from castaway.envs.base import Message
from castaway.rl.trajectory import Turn


@dataclass(frozen=True, slots=True)
class Correction:
    """The student's own prompt, its wrong answer, and the right one."""

    messages: tuple[Message, ...]
    wrong: str
    target: str
    """In exactly the typed form: parsed again, it gives the action that the teacher meant."""
    critique: str
    penalty: float


def correct(turn: Turn) -> Correction:
    """The correction of an invalid turn: the student's reasoning, if it gave one, with the teacher's action.

    Raises:
        ValueError: the turn is valid, or the correction does not read back as the teacher's action.
    """
    if turn.valid:
        raise ValueError("a valid turn has no correction")
    reasoning = parse_reply(turn.text).reasoning.strip() or "I answer in the typed form."
    target = str(Reply(reasoning, turn.action))
    if parse_reply(target).action != turn.action:
        raise ValueError(f"the correction {target!r} does not read back as {turn.action!r}")
    return Correction(turn.messages, turn.text, target, turn.critique, turn.penalty)


def write_corrections(path: Path, corrections: Iterable[Correction]) -> None:
    """Write JSON lines."""
    lines = [json.dumps(asdict(correction), sort_keys=True, ensure_ascii=False) for correction in corrections]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_corrections(path: Path) -> list[Correction]:
    """Read what `write_corrections` wrote."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [Correction(**{**row, "messages": tuple(row["messages"])}) for row in rows]
