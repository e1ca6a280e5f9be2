"""What the student got wrong, with what it should have written: the material of correction-SFT."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from castaway.models.tokens import prompt_tokens, reply_tokens
from castaway.rl.trajectory import Turn
from castaway.tasks.environment import Message
from castaway.tasks.reply import Reply, parse_reply


@dataclass(frozen=True, slots=True)
class Correction:
    """The student's own prompt, its wrong answer, and the right one."""

    messages: tuple[Message, ...]
    wrong: str
    target: str
    """In exactly the typed form: parsed again, it gives the action that the teacher meant."""
    kept: str
    """How much of `target`, from its beginning, is what the student wrote and stands: it is read, and not learned."""
    critique: str
    penalty: float
    source: str
    """Who judged: `rules`, or the name of a model."""


def correct(turn: Turn) -> Correction:
    """The correction of an invalid turn: the teacher's action, under the student's reasoning where that stands.

    Reasoning that stands is read and not learned. Reasoning that led to something impossible is replaced by the
    teacher's: kept above another action, it would teach that the one follows from the other.

    Raises:
        ValueError: the turn is valid, or the correction does not read back as the teacher's action.
    """
    if turn.valid:
        raise ValueError("a valid turn has no correction")
    reply = parse_reply(turn.text)
    own = reply.reasoning.strip()
    target = str(Reply(turn.reasoning or own or "I answer in the typed form.", turn.action))
    if parse_reply(target).action != turn.action:
        raise ValueError(f"the correction {target!r} does not read back as {turn.action!r}")
    kept = f"REASONING: {own}" if own and not turn.reasoning else ""
    if kept and reply.action:
        kept += "\nACTION:"
    return Correction(turn.messages, turn.text, target, kept, turn.critique, turn.penalty, turn.source)


def correction_tokens(
    tokenizer: PreTrainedTokenizerBase, correction: Correction
) -> tuple[list[int], list[int], list[bool]]:
    """The tokens of prompt and target, and which of the target's are to be learned."""
    prompt = prompt_tokens(tokenizer, correction.messages)
    target = reply_tokens(tokenizer, correction.messages, correction.target)
    kept = tokenizer(correction.kept, add_special_tokens=False)["input_ids"] if correction.kept else []
    # A piece that reaches beyond what is kept, as some tokenizers make them, is learned.
    same = 0
    while same < len(kept) and kept[same] == target[same]:
        same += 1
    return prompt, target, [number >= same for number in range(len(target))]


def write_corrections(path: Path, corrections: Iterable[Correction]) -> None:
    """Write JSON lines."""
    lines = [json.dumps(asdict(correction), sort_keys=True, ensure_ascii=False) for correction in corrections]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_corrections(path: Path) -> list[Correction]:
    """Read what `write_corrections` wrote."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [Correction(**{**row, "messages": tuple(row["messages"])}) for row in rows]
