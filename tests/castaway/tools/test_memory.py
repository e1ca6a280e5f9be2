"""The estimated memory is near the measured peaks, and what a host cannot hold is named."""

from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.params import Params
from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter
from castaway.processes.hardware import GIBIBYTE, Device
from castaway.tasks.registry import read_params
from castaway.tools.memory import KNOWN, Need, Sizes, misfit, needs, peak, served, sizes_of
from tests.shipped import PARAMS, ROOT

NEAR = 0.25
"""How far the estimate may be off."""
MEASURED = {
    "sizes": {"openspiel": 4.35},
    "smollm2": {"strictbot": 4.23},
    "smollm2-bfloat16": {"marooned": 4.94, "openspiel": 3.30, "strictbot": 3.21},
}
"""The largest peak of a stage that trains, in GiB, by profile and run; docs/hardware.md says on which machines."""
GPUS = {"qwen2.5-3b": 24, "qwen2.5-3b-nf4": 12, "llama3.1-8b": 192}
"""Gigabytes of the GPU that a profile is for."""


def profile(name: str) -> Params:
    return read_params(ROOT / "profiles" / f"{name}.yaml")


@pytest.mark.parametrize(("name", "measured"), MEASURED.items())
def test_the_largest_training_took_about_as_much_memory_as_estimated(
    name: str, measured: dict[str, float], tmp_path: Path
) -> None:
    estimated = {need.address: need.host / GIBIBYTE for need in needs(profile(name), tmp_path)}
    for run, peak_there in measured.items():
        assert estimated[f"ppo@{run}"] == pytest.approx(peak_there, rel=NEAR)


@pytest.mark.parametrize(("name", "gigabytes"), GPUS.items())
def test_the_profiles_fit_their_gpu(name: str, gigabytes: float, tmp_path: Path) -> None:
    needed = needs(profile(name), tmp_path)
    assert len(needed) == len(profile(name).tasks)
    assert all(1e9 < need.device < 1e9 * gigabytes and need.host > 0 for need in needed)


@pytest.mark.parametrize("tokens", [500, 10**5])
@pytest.mark.parametrize("name", ["smollm2", "smollm2-bfloat16", "qwen2.5-3b-nf4"])
def test_fewer_tokens_checkpointing_and_less_cache_save_memory(name: str, tokens: int) -> None:
    (base,) = profile(name).bases.values()
    plain = base.model_copy(update={"gradient_checkpointing": False})
    again = base.model_copy(update={"gradient_checkpointing": True})
    sizes = KNOWN["qwen2.5-3b"]
    most = peak(sizes, plain, True, 16, tokens, 100)
    assert most > peak(sizes, again, True, 16, tokens, 100)
    assert most > peak(sizes, plain, True, 16, tokens - 1, 100)
    assert most > peak(sizes, plain, True, 16, tokens, 99)
    assert most > peak(sizes, plain, True, 15, tokens, 100)


def test_a_server_on_the_same_gpu_counts_and_cached_tokens_are_its_own(tmp_path: Path) -> None:
    params, gibibytes = profile("llama3.1-8b"), 2**30
    (with_server,) = needs(params, tmp_path)
    rollout = params.ppo.rollout.model_copy(update={"sampler": "in_process"})
    alone = params.model_copy(update={"ppo": params.ppo.model_copy(update={"rollout": rollout})})
    (without,) = needs(alone, tmp_path)
    sizes, (base,) = KNOWN["llama-3.1-8b"], params.bases.values()
    # Weights of two bytes, 16 GiB of cache and 2 for work, instead of two copies of the keys and values in the process.
    server = 2 * sizes.parameters + 18 * gibibytes
    assert served(sizes, base, 16) == server
    cached = 2 * rollout.tokens_per_pass * 2 * 2 * 1024 * 32
    assert with_server.device - without.device == pytest.approx(server - cached)


def test_a_gpu_counts_where_there_is_one() -> None:
    small = Device("cuda", "NVIDIA T4", "sm_75", 16 * GIBIBYTE)
    needed = [Need("sft@strictbot", 1e9, 20.0 * GIBIBYTE)]
    assert misfit(needed, []) == ""
    assert misfit(needed, [small]).startswith("does not fit: sft@strictbot needs about 20.0 GiB, its GPU has 16.0 GiB")
    assert misfit([Need("sft@strictbot", 1e9, 15.0 * GIBIBYTE)], [small]) == ""


def test_a_tiny_model_and_its_adapter_are_counted_to_the_weight(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a b c"], PARAMS.base.vocabulary)
    model = new_model(PARAMS.base, tokenizer)
    sizes = sizes_of(PARAMS, "games", tmp_path)
    assert sizes is not None
    # A text of three words fills no vocabulary of 1,024 tokens.
    missing = (PARAMS.base.vocabulary - len(tokenizer)) * PARAMS.base.hidden_size
    assert sizes.parameters - missing == sum(weight.numel() for weight in model.parameters())
    adapted = new_adapter(model, LoraParams(rank=3, alpha=3.0))
    assert sizes.adapter(3) == sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)


@pytest.mark.parametrize("tied", [True, False])
def test_a_built_model_tells_its_sizes(tmp_path: Path, tied: bool) -> None:
    params = profile("qwen2.5-3b")
    (name,) = params.bases
    assert sizes_of(params, name, tmp_path) == KNOWN["qwen2.5-3b"]
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    widths = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2}
    config = LlamaConfig(**widths, **heads, tie_word_embeddings=tied)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "data" / name / "base")
    assert sizes_of(params, name, tmp_path) == Sizes(2, 24, 20, 32, 16, 40, tied)
