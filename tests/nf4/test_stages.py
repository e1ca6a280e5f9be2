"""A model in 4 bits goes through all stages; its sampler and its scorer agree."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from castaway.models.policy import load_model, new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.sampling import SamplingRules, sample_replies
from castaway.tasks.registry import read_params
from tests.castaway.rl.small import ROOT, stirred
from tests.families import write_family
from tests.test_families import BOUND, check_build, write_params


def test_a_model_in_four_bits_goes_through_all_stages(tmp_path: Path) -> None:
    write_family("qwen2", tmp_path / "model", ["REASONING: the value is wrong\nACTION: That is not right."] * 5)
    write_params(tmp_path, "model", "nf4")
    check_build(tmp_path, "strictbot")


def test_the_sampler_and_the_scorer_agree(tmp_path: Path) -> None:
    folder = write_family("qwen2", tmp_path / "model", ["ACTION: LEFT", "which way"] * 5)
    tokenizer = ChatTokenizer.load(folder)
    torch.manual_seed(0)
    lora = read_params(ROOT / "params.yaml").ppo.lora
    actor = stirred(ActorCritic(new_adapter(load_model(folder, dtype="nf4"), lora)), 0.02)
    prompts = [tokenizer.prompt([{"role": "user", "content": asked}]) for asked in ("which way", "left " * 40)]
    rules = SamplingRules.of(tokenizer, temperature=1.0, max_new_tokens=12, tokens_per_pass=4096)
    replies = sample_replies(actor, prompts, rules, torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = actor.score(actor.batch([(p, r.tokens) for p, r in zip(prompts, replies, strict=True)]), 1.0)
    for row, reply in enumerate(replies):
        found = scores.logprobs[row, : len(reply.tokens)].tolist()
        assert found == pytest.approx(reply.logprobs, abs=BOUND["bfloat16"])
