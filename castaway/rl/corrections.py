"""Corrections: the student's replies, each with the right one, to be learned by supervised fine-tuning (SFT).

With `ppo.correct: moves` the right reply may have the student's own action: it is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from castaway.datasets.jsonl import read_rows, write_rows
from castaway.models.tokens import ChatTokenizer
from castaway.rl.trajectory import Turn
from castaway.tasks.environment import Message
from castaway.tasks.reply import Reply, parse_reply


@dataclass(frozen=True, slots=True)
class Correction:
    """The student's own prompt, its answer, and the right one."""

    messages: tuple[Message, ...]
    wrong: str
    """The student's; right as well, if it is confirmed."""
    target: str
    """In exactly the typed form: parsed again, it gives the action that the teacher meant."""
    kept: str
    """The beginning of `target` that is the student's own and stands: it is read, and not learned."""
    critique: str
    penalty: float
    source: str
    """Who judged: `rules`, or the name of a model."""


def corrected(turn: Turn) -> bool:
    """Whether the teacher has an action for a turn: in the place of an invalid one, or as what it would have played."""
    return not turn.valid or bool(turn.better)


def confirms(correction: Correction) -> bool:
    """Whether the right action is the student's own."""
    return parse_reply(correction.wrong).action == parse_reply(correction.target).action


def correct(turn: Turn) -> Correction:
    """The correction of a turn: the teacher's action, under the student's reasoning where that stands.

    Reasoning that stands is read and not learned. Reasoning that led to something impossible, or to a mistake, is
    replaced by the teacher's: kept above another action, it would teach that the one follows from the other.

    Raises:
        ValueError: the teacher has no action for it, or the correction does not read back as the teacher's action.
    """
    if not corrected(turn):
        raise ValueError("a turn that stands has no correction")
    own, action = turn.reply.reasoning.strip(), turn.better or turn.action
    target = str(Reply(turn.reasoning or own or "I answer in the typed form.", action))
    if parse_reply(target).action != action:
        raise ValueError(f"the correction {target!r} does not read back as {action!r}")
    kept = f"REASONING: {own}" if own and not turn.reasoning else ""
    if kept and turn.reply.action:
        kept += "\nACTION:"
    return Correction(
        messages=turn.messages,
        wrong=turn.text,
        target=target,
        kept=kept,
        critique=turn.critique,
        penalty=turn.penalty,
        source=turn.source,
    )


def correction_tokens(tokenizer: ChatTokenizer, correction: Correction) -> tuple[list[int], list[int], list[bool]]:
    """A correction as a model reads it.

    Returns:
        The tokens of the prompt, those of the target, and for each of the latter whether it is to be learned.
    """
    prompt, target = tokenizer.prompt(correction.messages), tokenizer.reply(correction.target)
    kept = tokenizer.piece(correction.kept)
    # A piece that reaches beyond what is kept, as some tokenizers make them, is learned.
    same = 0
    while same < len(kept) and kept[same] == target[same]:
        same += 1
    return prompt, target, [number >= same for number in range(len(target))]


def correction_pair(tokenizer: ChatTokenizer, correction: Correction) -> dict[str, list[int]]:
    """The tokens of a prompt, of the right reply and of the student's own."""
    return {
        "prompt_ids": tokenizer.prompt(correction.messages),
        "chosen_ids": tokenizer.reply(correction.target),
        "rejected_ids": tokenizer.reply(correction.wrong),
    }


def write_corrections(path: Path, corrections: Iterable[Correction]) -> None:
    """Write JSON lines."""
    write_rows(path, corrections)


def read_corrections(path: Path) -> list[Correction]:
    """Read what `write_corrections` wrote."""
    return read_rows(path, Correction)
