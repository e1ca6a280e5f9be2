"""With `ppo.corrections.critique` the teacher's sentence is learned before the action, by correction-SFT too."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from castaway.bases.tiny import new_model
from castaway.config.sections import LoraParams
from castaway.datasets.jsonl import CORRECTIONS, DEMONSTRATIONS, demonstration, reply_text, write_rows
from castaway.models.policy import load_model, new_adapter, save_adapter
from castaway.models.training import seed_everything
from castaway.rl.corrections import correct, correction_tokens
from castaway.rl.learner import Learner
from castaway.rl.ranks import Ranks
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.verdict import WITHOUT_ACTION
from stages import correction_sft, ppo
from stages.context import Context
from tests.castaway.rl.small import NoScorer, ppo_params, small_base, student
from tests.castaway.rl.test_corrections import turn
from tests.shipped import PARAMS

WRONG = replace(turn("REASONING: a\nACTION: GO", "RIGHT"), critique="GO is no\n way.")
CRITICAL = "REASONING: GO is no way.\nACTION: RIGHT"


def test_the_critique_stands_in_the_place_of_the_reasoning_and_is_learned() -> None:
    _, tokenizer = student()
    correction = correct(WRONG, fits=lambda reply: True)
    assert reply_text(correction["completion"]) == reply_text(correction["chosen"]) == CRITICAL
    assert parse_reply(CRITICAL) == Reply("GO is no way.", "RIGHT")
    assert all(correction_tokens(tokenizer, correction)[2]) and correction["kept"] == ""
    as_ever = correct(WRONG)
    assert as_ever == correct(WRONG, fits=lambda reply: False) == {**correction, **as_ever}
    assert (reply_text(as_ever["chosen"]), as_ever["kept"]) == ("REASONING: a\nACTION: RIGHT", "REASONING: a\nACTION:")
    confirmed = replace(turn("REASONING: a\nACTION: RIGHT", "RIGHT", valid=True), critique="", better="RIGHT")
    assert correct(confirmed, fits=lambda reply: True) == correct(confirmed)


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("critique", [True, False])
def test_an_sft_pass_learns_the_critiques_that_have_room(room: bool, critique: bool) -> None:
    actor, tokenizer = student()
    longest = len(tokenizer.reply(CRITICAL)) - (not room)
    params = ppo_params(critique=critique, sft_interval=1, sft_minimum=1, max_new_tokens=longest)
    learner = Learner(actor, tokenizer, NoScorer(), params, torch.Generator(), Ranks())  # type: ignore[arg-type]
    assert learner.correct([WRONG], 0)["sft_loss"] > 0
    wanted = CRITICAL if room and critique else "REASONING: a\nACTION: RIGHT"
    assert [reply_text(one["completion"]) for one in learner.corrections] == [wanted]


def test_correction_sft_trains_on_critiques(tmp_path: Path) -> None:
    """The stage itself, on what a run with the key leaves behind."""
    seed_everything(1, 1)
    _, tokenizer = student()
    data = tmp_path / "data"
    new_model(small_base(), tokenizer.tokenizer).save_pretrained(data / "answers/base")
    tokenizer.tokenizer.save_pretrained(data / "answers/base")
    for stage, before in (("sft", []), ("ppo", ["sft"])):
        model = load_model(data / "answers/base", [data / "strictbot" / one for one in before])
        save_adapter(new_adapter(model, LoraParams(rank=4, alpha=8)), data / "strictbot" / stage)
    (data / "strictbot/correction_sft").mkdir()
    rows = [correct(WRONG, fits=lambda reply: True)] * 40
    write_rows(data / "strictbot/ppo/corrections.jsonl", rows, CORRECTIONS)
    learning = PARAMS.correction_sft.model_copy(update={"epochs": 10, "learning_rate": 1e-2})
    curves: list[Mapping[str, float]] = []
    context = Context(
        root=tmp_path,
        params=PARAMS.model_copy(update={"correction_sft": learning}),
        run="strictbot",
        base="answers",
        stage="correction_sft",
        scratch=tmp_path / "scratch",
        log=lambda _, values: curves.append(values),
    )
    metrics = correction_sft.run(context)
    losses = [values["loss"] for values in curves if "loss" in values]
    assert (metrics["corrections"], metrics["steps"]) == (40, 30) and losses[-1] < losses[0]
    assert (data / "strictbot/correction_sft/adapter_model.safetensors").is_file()


def test_ppo_says_at_once_when_no_critique_has_room(tmp_path: Path) -> None:
    _, tokenizer = student()
    rows = [demonstration(({"role": "user", "content": "which way"},), "REASONING: a\nACTION: LEFT", "walker")]
    write_rows(tmp_path / "rows.jsonl", rows, DEMONSTRATIONS)
    demonstrations = ppo.read_rows(tmp_path / "rows.jsonl", DEMONSTRATIONS)
    least = len(tokenizer.reply(str(Reply(WITHOUT_ACTION, "LEFT"))))
    for longest, critique, fine in ((least, True, True), (least - 1, True, False), (least - 1, False, True)):
        fault = ppo._too_long(tokenizer, demonstrations, ppo_params(critique=critique, max_new_tokens=longest))
        assert fine == (fault == "")
        assert fine or f"set it to {2 * least}" in fault
