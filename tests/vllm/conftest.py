"""An untrained model, an adapter for it, and a vLLM that serves both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.attempts import distinct_attempts
from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter, save_adapter
from castaway.rollout.server import Server, running
from castaway.rollout.vllm import Serving, read_adapter
from castaway.teacher.protocol import question
from tests.castaway.rl.small import ROOT, small_base
from tests.vllm.game import ENVIRONMENT, RUBRIC, RULES

CONTEXT = 4096
"""What an untrained model writes is long: a token a letter, and letters of four bytes."""


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, with the adapter in a folder beside it. vLLM's attention wants heads of 32 on a CPU."""
    folder = tmp_path_factory.mktemp("teacher")
    asked = [question(RUBRIC, RULES, attempt) for attempt in distinct_attempts(ENVIRONMENT, 4)]
    tokenizer = train_tokenizer([message["content"] for messages in asked for message in messages], 1024)
    torch.manual_seed(0)
    model = new_model(small_base().model_copy(update={"hidden_size": 64}), tokenizer)
    model.config.max_position_embeddings = CONTEXT
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    adapted = new_adapter(model, LoraParams(rank=4, alpha=8))
    with torch.no_grad():
        for weight in adapted.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight))
    save_adapter(adapted, folder / "adapter")
    return folder / "model"


@pytest.fixture(scope="session")
def serving(weights: Path) -> Serving:
    """The model and its adapter, on any free port."""
    adapter = read_adapter(f"other={weights.parent / 'adapter'}")
    log, environment = weights.parent / "log", ROOT / ".venv-vllm"
    return Serving(str(weights), adapters=(adapter,), port=0, environment=environment, log=log, ready_seconds=180)


@pytest.fixture(scope="session")
def server(serving: Serving) -> Iterator[Server]:
    """One server for all; the last of the tests kills it."""
    with running(serving) as server:
        yield server
