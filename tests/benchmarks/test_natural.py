"""The table of the hand-written questions."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks.natural import Answered, answers, figures
from castaway.models.tiny import new_model, train_tokenizer
from tests.castaway.rl.small import small_base


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of two layers."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["you are a tutor", "asked what is so ?", "known it is so"] * 9, 400)
    path = tmp_path_factory.mktemp("model")
    new_model(small_base(), tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_each_question_is_a_conversation_of_its_own(folder: Path) -> None:
    first, second = islice(answers("untrained", folder, "compact"), 2)
    assert first.asked != second.asked and first.fact != second.fact
    assert {first.wanted, second.wanted} <= {1, 2, 3}
    assert first.answer and not first.factual and not second.factual


def answered(wanted: int, produced: int, factual: bool, loop: bool = False) -> Answered:
    return Answered("one", "why?", "So.", wanted, "So.", produced, factual, loop)


def test_the_shares_by_hand() -> None:
    found = [answered(3, 3, True), answered(3, 3, False), answered(2, 1, True), answered(1, 0, False, loop=True)]
    name, both, level, fact, loops = figures("one", found)
    assert (name, loops) == ("one", "1")
    assert [cell.split(" (")[0] for cell in (both, level, fact)] == ["25.0 %", "50.0 %", "50.0 %"]
