"""Corrections: the student's replies, each with the right one, to be learned by SFT or preferred by DPO.

They are rows of `castaway.datasets.jsonl.CORRECTIONS`. `rejected` is the student's own reply; `completion` and `chosen`
are the right one in exactly the typed form, so that it reads back as the action that the teacher meant. `kept` is its
beginning that is the student's own and stands: it is read, and not learned. `source` says who judged: `rules`, or the
name of a model.

With `ppo.corrections.scope: moves` the right reply may have the student's own action: it is confirmed.

With `ppo.corrections.critique` the reasoning of the right reply is the teacher's critique of the student's, all of it
learned: the policy learns to say what is wrong before it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from castaway.datasets.jsonl import Row, as_reply, reply_text
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.reply import Reply, parse_reply

if TYPE_CHECKING:
    from castaway.rollout.trajectory import Turn


def corrected(turn: Turn) -> bool:
    """Whether the teacher has an action for a turn: in the place of an invalid one, or as what it would have played."""
    return not turn.valid or bool(turn.better)


def confirmed(turn: Turn) -> bool:
    """Whether the action that the teacher has for a turn is the student's own."""
    return turn.reply.action == (turn.better or turn.action)


def confirms(correction: Row) -> bool:
    """Whether the right action is the student's own."""
    own, right = (parse_reply(reply_text(correction[name])) for name in ("rejected", "chosen"))
    return own.action == right.action


def correct(turn: Turn, fits: Callable[[str], bool] | None = None) -> Row:
    """The correction of a turn: the teacher's action, under the student's reasoning where that stands.

    Where `fits` is given, the reasoning is the teacher's critique, if there is one and the reply with it fits.

    Reasoning that stands is read and not learned. Reasoning that led to something impossible, or to a mistake, is
    replaced by the teacher's: kept above another action, it would teach that the one follows from the other.

    Raises:
        ValueError: the teacher has no action for it, or the correction does not read back as the teacher's action.
    """
    if not corrected(turn):
        raise ValueError("a turn that stands has no correction")
    own, action = turn.reply.reasoning.strip(), turn.better or turn.action
    target, kept = str(Reply(turn.reasoning or own or "I answer in the typed form.", action)), ""
    if fits and turn.critique and fits(critical := str(Reply(" ".join(turn.critique.split()), action))):
        target = critical
    elif own and not turn.reasoning:
        kept = f"REASONING: {own}"
    if parse_reply(target).action != action:
        raise ValueError(f"the correction {target!r} does not read back as {action!r}")
    if kept and turn.reply.action:
        kept += "\nACTION:"
    return {
        "prompt": list(turn.messages),
        "completion": as_reply(target),
        "chosen": as_reply(target),
        "rejected": as_reply(turn.text),
        "kept": kept,
        "critique": turn.critique,
        "penalty": turn.penalty,
        "source": turn.source,
    }


def correction_tokens(tokenizer: ChatTokenizer, correction: Row) -> tuple[list[int], list[int], list[bool]]:
    """A correction as a model reads it.

    Returns:
        The tokens of the prompt, those of the target, and for each of the latter whether it is to be learned.
    """
    prompt, target = tokenizer.prompt(correction["prompt"]), tokenizer.reply(reply_text(correction["completion"]))
    kept = tokenizer.piece(correction["kept"])
    # A piece that reaches beyond what is kept, as some tokenizers make them, is learned.
    same = 0
    while same < len(kept) and kept[same] == target[same]:
        same += 1
    return prompt, target, [number >= same for number in range(len(target))]


def correction_pair(tokenizer: ChatTokenizer, correction: Row) -> dict[str, list[int]]:
    """The tokens of a prompt, of the right reply and of the student's own."""
    return {
        "prompt_ids": tokenizer.prompt(correction["prompt"]),
        "chosen_ids": tokenizer.reply(reply_text(correction["chosen"])),
        "rejected_ids": tokenizer.reply(reply_text(correction["rejected"])),
    }
