"""Learning from pairs of replies: the right one gets likelier against the student's own, and the base model stays.

So does all of it where nothing is to be learned.
"""

from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from castaway.models.policy import lora_config
from castaway.models.trainers import preference_trainer, reply_trainer
from castaway.models.training import labelled
from castaway.rl.corrections import correct, correction_pair
from tests.castaway.models.classes import model_of
from tests.castaway.rl.small import stirred, student
from tests.castaway.rl.test_corrections import turn
from tests.shipped import PARAMS


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
    settings = {"beta": 0.1, "batch_size": 4, "learning_rate": 1e-2, "tokens_per_pass": tokens_per_pass}
    points: list[dict[str, float]] = []

    def margin() -> float:
        better, worse = (chance(model, pair["prompt_ids"], pair[f"{one}_ids"]) for one in ("chosen", "rejected"))
        return better - worse

    before = margin()
    fixed = {name: weight.clone() for name, weight in model.named_parameters() if not weight.requires_grad}
    params = PARAMS.correction_sft.model_copy(update={"method": "dpo", **settings})
    trainer = preference_trainer(
        model, tokenizer, [pair] * 80, params, log=lambda step, values: points.append(dict(values)),
        scratch=tmp_path, seed=1, device="cpu", gradient_checkpointing=False,
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 20
    # At the start the policy is the reference, and the loss is log 2.
    assert points[-1]["loss"] < points[0]["loss"] < log(2) and points[-1]["accuracy"] == 1.0
    assert margin() - before > 5
    assert all(torch.equal(weight, fixed[name]) for name, weight in model.named_parameters() if name in fixed)


def test_no_epochs_leave_the_policy_as_the_base_model_is(tmp_path: Path) -> None:
    actor, tokenizer = student()
    model: Any = actor.policy
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    rows = [labelled(tokenizer.prompt([{"role": "user", "content": "which way"}]), tokenizer.reply("ACTION: LEFT"))] * 9
    params = PARAMS.sft.model_copy(update={"epochs": 0})
    trainer = reply_trainer(
        model, tokenizer, rows, params,
        log=lambda *_: None, scratch=tmp_path, seed=1, device="cpu", gradient_checkpointing=False,
    )  # fmt: skip
    result = trainer.train()
    assert (result.global_step, result.training_loss) == (0, 0.0)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "gpt_oss", "qwen3_next", "olmoe", "granitemoe"])
@pytest.mark.parametrize("coefficient", [0.0, 0.5])
def test_a_mixture_of_experts_learns_to_use_them_alike_as_its_class_has_it(
    tmp_path: Path, name: str, coefficient: float
) -> None:
    model = model_of(name)
    model.config.router_aux_loss_coef = model.router_aux_loss_coef = coefficient
    row = labelled(list(range(3, 20)), [21, 22, 23])
    trainer = reply_trainer(
        model, student()[1], [row] * 3, PARAMS.sft, adapter=lora_config(PARAMS.sft.lora),
        log=lambda *_: None, scratch=tmp_path, seed=1, device="cpu", gradient_checkpointing=False,
    )  # fmt: skip
    tokens, labels = (torch.tensor([row[name]]) for name in ("input_ids", "labels"))
    with torch.no_grad():
        found = trainer.compute_loss(trainer.model, trainer.data_collator([row]))
        several = trainer.compute_loss(trainer.model, trainer.data_collator([row, row, labelled([3, 4], [5])]))
        expected = model(input_ids=tokens, labels=labels, output_router_logits=True)
    torch.testing.assert_close(found, expected.loss)
    assert several.isfinite()
    learned = expected.logits[0, -4:-1].log_softmax(-1)[range(3), row["labels"][-3:]].mean()
    assert bool(found + learned > 0.1) is (coefficient > 0)
