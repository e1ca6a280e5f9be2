"""The sizes of models are those of the models themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from castaway.config.params import Params
from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter
from castaway.models.tiny import new_model, train_tokenizer
from castaway.tasks.registry import read_params
from castaway.tools.profiles.architecture import KNOWN, Architecture, architecture_of

ROOT = Path(__file__).parents[4]
PUBLISHED = {
    "smollm2-135m": 134_515_008,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "llama-3.1-8b": 8_030_261_248,
}
"""Numbers of parameters; those of Qwen2.5 with its biases."""


@pytest.fixture(scope="module")
def params() -> Params:
    return read_params(ROOT / "params.yaml")


@pytest.mark.parametrize("name", KNOWN)
def test_known_models_have_as_many_parameters_as_published(name: str) -> None:
    assert KNOWN[name].parameters == pytest.approx(PUBLISHED[name], rel=1e-3)


def test_a_tiny_model_and_its_adapter_are_counted_to_the_weight(params: Params, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a b c"], params.base.vocabulary)
    model = new_model(params.base, tokenizer)
    sizes = architecture_of(params, "games", tmp_path)
    assert sizes is not None
    # A text of three words fills no vocabulary of 1,024 tokens.
    missing = (params.base.vocabulary - len(tokenizer)) * params.base.hidden_size
    assert sizes.parameters - missing == sum(weight.numel() for weight in model.parameters())
    adapted = new_adapter(model, LoraParams(rank=3, alpha=3.0))
    assert sizes.adapter(3) == sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)


def test_words_of_a_task_have_embeddings(params: Params, tmp_path: Path) -> None:
    games, answers = (architecture_of(params, name, tmp_path) for name in ("games", "answers"))
    assert games and answers and answers.vocabulary > games.vocabulary == params.base.vocabulary


@pytest.mark.parametrize("tied", [True, False])
def test_a_built_model_tells_its_sizes(tmp_path: Path, tied: bool) -> None:
    params = read_params(ROOT / "profiles" / "qwen2.5-3b.yaml")
    (name,) = params.bases
    assert architecture_of(params, name, tmp_path) == KNOWN["qwen2.5-3b"]
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40,
            hidden_size=24,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            tie_word_embeddings=tied,
        )
    )
    model.save_pretrained(tmp_path / "data" / name / "base")
    sizes = architecture_of(params, name, tmp_path)
    assert sizes == Architecture(2, 24, 20, 4, 2, 8, 40, tied)
    assert sizes.parameters == sum(weight.numel() for weight in model.parameters())


def test_an_unknown_model_has_no_sizes(tmp_path: Path) -> None:
    params = read_params(ROOT / "profiles" / "qwen2.5-3b.yaml")
    ((name, block),) = params.bases.items()
    other = params.model_copy(update={"bases": {name: block.model_copy(update={"hub": "somebody/something"})}})
    assert architecture_of(other, name, tmp_path) is None
