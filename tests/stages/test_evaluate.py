"""The evaluation with a server, where there is none."""

from pathlib import Path
from typing import Any

import pytest

from castaway.datasets.jsonl import write_rows
from castaway.datasets.scripted import Demonstration
from castaway.errors import CastawayError
from castaway.models.tiny import new_model
from stages.context import Context
from stages.evaluate import run
from tests.castaway.rl.small import shipped, small_base, student


def test_without_vllm_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    params = shipped().for_run("strictbot")
    served = params.evaluate.model_copy(update={"sampler": "vllm", "best_of": 1})
    _, tokenizer = student()
    base, data = tmp_path / "data/answers/base", tmp_path / "data/strictbot/dataset"
    new_model(small_base(), tokenizer.tokenizer).save_pretrained(base)
    tokenizer.save(base)
    data.mkdir(parents=True)
    write_rows(data / "demonstrations.jsonl", [Demonstration(({"role": "user", "content": "which"},), "LEFT", "a")])

    def nothing(*_: Any) -> None:
        pass

    context = Context(
        tmp_path,
        params.model_copy(update={"evaluate": served}),
        "strictbot",
        "answers",
        "evaluate",
        nothing,
        tmp_path / "scratch",
        nothing,
        nothing,
        "cpu",
    )
    with pytest.raises(CastawayError, match=r"^there is no vLLM in .*/\.venv-vllm; this host .* install") as caught:
        run(context)
    assert "\n" not in str(caught.value)
