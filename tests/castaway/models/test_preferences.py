"""Learning from pairs of replies: the right one gets likelier against the student's own, and the base model stays."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from castaway.models.preferences import preference_trainer
from castaway.rl.corrections import correct, correction_pair
from castaway.tasks.reply import parse_reply
from tests.castaway.rl.small import shipped, stirred, student
from tests.castaway.rl.test_corrections import turn


def chance(model: Any, prompt: list[int], reply: list[int]) -> float:
    """The log-likelihood of a reply, in nats."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1].float()
    return float(logits.log_softmax(-1).gather(1, torch.tensor(reply)[:, None]).sum())


@pytest.mark.parametrize("tokens_per_pass", [65536, 1])
def test_the_right_reply_gets_likelier_than_the_students_own(tmp_path: Path, tokens_per_pass: int) -> None:
    actor, tokenizer = student()
    model: Any = stirred(actor).policy
    pair = correction_pair(tokenizer, correct(turn("REASONING: a\nACTION: GO", "RIGHT")))
    settings = {
        "method": "dpo",
        "beta": 0.1,
        "batch_size": 4,
        "learning_rate": 1e-2,
        "tokens_per_pass": tokens_per_pass,
    }
    points: list[dict[str, float]] = []

    def margin() -> float:
        return chance(model, pair["prompt_ids"], pair["chosen_ids"]) - chance(
            model, pair["prompt_ids"], pair["rejected_ids"]
        )

    before = margin()
    fixed = {name: weight.clone() for name, weight in model.named_parameters() if not weight.requires_grad}
    trainer = preference_trainer(
        model,
        tokenizer,
        [pair] * 80,
        shipped().correction_sft.model_copy(update=settings),
        scratch=tmp_path,
        seed=1,
        device="cpu",
        gradient_checkpointing=False,
        log=lambda step, values: points.append(dict(values)),
    )
    trainer.train()
    assert trainer.state.global_step == 20
    # At the start the policy is the reference, and the loss is log 2.
    assert points[-1]["loss"] < points[0]["loss"] < log(2) and points[-1]["accuracy"] == 1.0
    assert margin() - before > 5
    assert all(torch.equal(weight, fixed[name]) for name, weight in model.named_parameters() if name in fixed)


def test_the_reply_in_the_pair_is_read_as_it_was_written() -> None:
    _, tokenizer = student()
    pair = correction_pair(tokenizer, correct(turn("REASONING: a\nACTION: GO", "RIGHT")))
    assert parse_reply(tokenizer.tokenizer.decode(pair["chosen_ids"], skip_special_tokens=True)).action == "RIGHT"
