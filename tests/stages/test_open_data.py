"""What a run leaves for training feeds TRL's own trainers as it is, through `load_dataset`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import DatasetDict, load_dataset
from transformers import AutoModelForSequenceClassification
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

from castaway.bases.tiny import new_model
from castaway.datasets.jsonl import CORRECTIONS, DEMONSTRATIONS, PAIRS, reply_text, write_rows
from castaway.models.policy import load_model
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import labelled
from castaway.rl.corrections import correct
from tests.castaway.rl.small import small_base, student
from tests.castaway.rl.test_corrections import turn
from tests.stages.test_dataset import data

STEPS = 2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its data set, an untrained base model and two corrections."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("run")
    data(root, "http://127.0.0.1:1/v1", kind="rules")
    _, tokenizer = student()
    new_model(small_base(), tokenizer.tokenizer).save_pretrained(root / "data/answers/base")
    corrections = [correct(turn(f"REASONING: a\nACTION: GO {number}", "RIGHT")) for number in range(4)]
    write_rows(root / "corrections.jsonl", corrections, CORRECTIONS)
    return root


def loaded(root: Path, *source: str, **arguments: Any) -> DatasetDict:
    return load_dataset(*source, **arguments, cache_dir=str(root / "cache"))


def settings(root: Path) -> dict[str, Any]:
    batches = {"max_steps": STEPS, "per_device_train_batch_size": 2, "max_length": None, "use_cpu": True}
    return {**batches, "output_dir": str(root / "trl"), "report_to": [], "save_strategy": "no", "bf16": False}


def test_a_runs_folder_feeds_trl(root: Path) -> None:
    base, folder = root / "data/answers/base", str(root / "data/strictbot/dataset")
    tokenizer = ChatTokenizer.load(base)
    demonstrations, pairs = loaded(root, folder, "demonstrations"), loaded(root, folder, "pairs")
    assert demonstrations["train"].features == DEMONSTRATIONS and list(demonstrations) == ["train"]
    assert pairs["train"].features == pairs["test"].features == PAIRS and list(pairs) == ["train", "test"]
    assert (len(demonstrations["train"]), len(pairs["train"]), len(pairs["test"])) == (50, 90, 30)

    rows, words = demonstrations["train"], tokenizer.tokenizer
    imitation = SFTTrainer(load_model(base), SFTConfig(**settings(root)), train_dataset=rows, processing_class=words)
    # With this template TRL makes the tokens that our stage makes, and learns those that it learns.
    for row, made in zip(rows, imitation.train_dataset, strict=True):
        own = labelled(tokenizer.prompt(row["prompt"]), tokenizer.reply(reply_text(row["completion"])))
        assert {name: made[name] for name in own} == own
    imitation.train()

    scoring = RewardTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(base, num_labels=1),
        args=RewardConfig(**settings(root)),
        train_dataset=pairs["train"],
        eval_dataset=pairs["test"],
        processing_class=words,
    )
    scoring.train()
    assert imitation.state.global_step == scoring.state.global_step == STEPS
    assert 0 <= scoring.evaluate()["eval_accuracy"] <= 1


@pytest.mark.parametrize(("trainer", "config"), [(SFTTrainer, SFTConfig), (DPOTrainer, DPOConfig)])
def test_one_file_of_corrections_feeds_sft_and_dpo(root: Path, trainer: Any, config: Any) -> None:
    base = root / "data/answers/base"
    rows = loaded(root, "json", data_files=str(root / "corrections.jsonl"))["train"]
    assert rows.column_names == list(CORRECTIONS)
    model, words = load_model(base), ChatTokenizer.load(base).tokenizer
    training = trainer(model=model, args=config(**settings(root)), train_dataset=rows, processing_class=words)
    training.train()
    assert training.state.global_step == STEPS
