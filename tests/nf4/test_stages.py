"""A model in 4 bits goes through all stages; its sampler and its scorer agree."""

from pathlib import Path

from tests.families import write_family
from tests.test_families import BOUND, agree, check_build, texts, write_params


def test_a_model_in_four_bits_goes_through_all_stages(tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "model", texts())
    write_params(tmp_path, "model", "nf4")
    check_build(tmp_path, "strictbot")


def test_the_sampler_and_the_scorer_agree(tmp_path: Path) -> None:
    agree(write_family("qwen2", tmp_path / "model", ["ACTION: LEFT", "which way"] * 5), "nf4", BOUND["bfloat16"])
