"""Every stage of a profile has an estimate, and what a host cannot hold is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from castaway.config.params import Params
from castaway.tasks.registry import read_params
from castaway.tools.profiles.host import host_memory, misfit
from castaway.tools.profiles.stages import Need, needs
from castaway.tools.profiles.workload import Workload, workload_of

ROOT = Path(__file__).parents[4]
STAGES = ("dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge")
RECORDS = ROOT / "benchmarks" / "profiles" / "smollm2-bfloat16" / "data"
"""Of the stages that were run with that profile."""
MEASURED = {
    "openspiel": Workload(shared=96, prompt=167.2, longest=235, reply=19.5, turns=1.8, agents=1.0, seconds=1e-4),
    "marooned": Workload(shared=604, prompt=805.4, longest=856, reply=19.0, turns=72.0, agents=4.0, seconds=2e-4),
}
"""Runs of that profile, as SmolLM2's tokenizer counts them."""
LOAD = Workload(shared=70, prompt=130.0, longest=180, reply=25.0, turns=4.0, agents=1.0, seconds=1e-3)


def estimated(params: Params, root: Path = ROOT) -> dict[str, Need]:
    return {need.address: need for need in needs(params, root, dict.fromkeys(params.tasks, LOAD))}


def changed(params: Params, section: str, **keys: object) -> Params:
    return params.model_copy(update={section: getattr(params, section).model_copy(update=keys)})


@pytest.fixture(scope="module")
def smollm2() -> Params:
    return read_params(ROOT / "profiles" / "smollm2.yaml")


@pytest.mark.parametrize("name", ["smollm2", "qwen2.5-0.5b", "qwen2.5-3b", "qwen2.5-3b-nf4", "llama3.1-8b"])
def test_every_stage_has_an_estimate(name: str, tmp_path: Path) -> None:
    params = read_params(ROOT / "profiles" / f"{name}.yaml")
    found = estimated(params, tmp_path)
    (base,) = params.bases
    assert sorted(found) == sorted([f"base@{base}", *(f"{stage}@{run}" for run in params.tasks for stage in STAGES)])
    on_gpu = {address for address, need in found.items() if need.device}
    learning = {address for address in found if address.split("@")[0] not in ("base", "dataset", "merge")}
    assert on_gpu == (set() if params.device == "cpu" else learning)
    assert all(0 < need.range[0] < need.range[1] for need in found.values())


GPUS = {"qwen2.5-0.5b": 24e9, "qwen2.5-3b": 24e9, "qwen2.5-3b-nf4": 12e9, "llama3.1-8b": 192e9}


@pytest.mark.parametrize(("name", "most"), GPUS.items())
def test_the_profiles_fit_their_gpu(name: str, most: float) -> None:
    params = read_params(ROOT / "profiles" / f"{name}.yaml")
    for run in params.tasks:
        # The longest prompts of all tasks.
        load = Workload(shared=900, prompt=1100.0, longest=1200, reply=40.0, turns=84.0, agents=5.0, seconds=1e-3)
        assert max(need.device for need in needs(params, ROOT, dict.fromkeys(params.tasks, load))) < most, run


@pytest.mark.parametrize("run", MEASURED)
@pytest.mark.parametrize("stage", ["sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"])
def test_whole_stages_took_about_as_much_memory_as_estimated(run: str, stage: str) -> None:
    if (stage, run) == ("evaluate", "openspiel"):
        pytest.skip("measured before evaluations gave large blocks back")
    if stage == "merge":
        pytest.skip("measured when merges still compared whole prompts")
    record = json.loads((RECORDS / run / "runs" / f"{stage}.json").read_text("utf-8"))
    measured = record["peak_memory_gib"] * 2**30
    params = read_params(ROOT / "profiles" / "smollm2-bfloat16.yaml")
    found = {need.address: need.host for need in needs(params, ROOT, {**dict.fromkeys(params.tasks, LOAD), **MEASURED})}
    assert found[f"{stage}@{run}"] == pytest.approx(measured, rel=0.25)


def test_smaller_passes_need_less(smollm2: Params, tmp_path: Path) -> None:
    before, smaller = estimated(smollm2, tmp_path), changed(smollm2, "sft", tokens_per_pass=200)
    assert estimated(smaller, tmp_path)["sft@strictbot"].host < before["sft@strictbot"].host
    longer = estimated(changed(smollm2, "ppo", episodes_per_step=2 * smollm2.ppo.episodes_per_step), tmp_path)
    # The speed of this host is measured anew for each estimate, so twice the episodes is not exactly twice the time.
    assert longer["ppo@strictbot"].seconds > 1.4 * before["ppo@strictbot"].seconds


def test_what_does_not_fit_is_named_with_what_to_change(smollm2: Params, tmp_path: Path) -> None:
    assert misfit(needs(smollm2, tmp_path, dict.fromkeys(smollm2.tasks, LOAD))) is None
    huge = changed(smollm2, "ppo", tokens_per_pass=10**9, minibatch_turns=10**8, episodes_per_step=10**8)
    told = misfit(needs(huge, tmp_path, dict.fromkeys(huge.tasks, LOAD)))
    assert told is not None and told.startswith("does not fit: ppo@") and "lower ppo.tokens_per_pass" in told
    assert f"this host has {host_memory() / 1e9:.1f} GB" in told and misfit([]) is None


def test_a_run_is_measured_by_playing(smollm2: Params, tmp_path: Path) -> None:
    load = workload_of(smollm2, "openspiel", tmp_path)
    again = workload_of(smollm2, "openspiel", tmp_path)
    assert (load.shared, load.prompt, load.longest, load.reply) == (
        again.shared,
        again.prompt,
        again.longest,
        again.reply,
    )
    assert 0 < load.shared < load.prompt < load.longest and 0 < load.reply < load.prompt
    # A game of tic-tac-toe has at most five moves of each side, one after another.
    assert 1 < load.turns <= 5 and load.agents == 1
