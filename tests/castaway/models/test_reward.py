"""The reward model reads the stop token of an answer, in training and scoring, on the trunk that the policy has."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model

from castaway.config.sections import LoraParams
from castaway.models.policy import load_model, lora_config, new_adapter, save_adapter
from castaway.models.reward import RewardScorer, Scale, sequence_classifier
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from tests.castaway.models.classes import model_of
from tests.castaway.rl.small import stirred
from tests.families import FAMILIES, write_family

LORA = LoraParams(rank=4, alpha=4)
ASKED = ({"role": "user", "content": "Which way is it to the camp?"},)
ANSWERS = ("LEFT", "RIGHT, and then on for a while", "no")


@pytest.fixture(params=FAMILIES)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A base model and, next to it, a reward model whose adapter and head are random."""
    folder = write_family(str(request.param), tmp_path / "base", ["Which way? LEFT RIGHT"] * 5)
    torch.manual_seed(1)
    settings = lora_config(LORA, task_type="SEQ_CLS")
    settings.modules_to_save = ["score"]
    reward: Any = get_peft_model(sequence_classifier(load_model(folder)), settings)
    with torch.no_grad():
        for name, weight in reward.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    save_adapter(reward, tmp_path / "reward")
    Scale(0.0, 1.0).save(tmp_path / "reward")
    rows, tokenizer = scored_rows(folder)
    # As TRL pads them: with a token that may be a stop token.
    width = max(map(len, rows))
    tokens = torch.tensor([[*row, *[tokenizer.pad] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    with torch.no_grad():
        torch.save(reward(input_ids=tokens, attention_mask=mask).logits[:, 0].tolist(), tmp_path / "trained.pt")
    return folder


def scored_rows(folder: Path) -> tuple[list[list[int]], ChatTokenizer]:
    tokenizer = ChatTokenizer.load(folder)
    return [tokenizer.prompt(ASKED) + tokenizer.reply(answer) for answer in ANSWERS], tokenizer


def test_scores_are_those_of_training(base: Path) -> None:
    rows, tokenizer = scored_rows(base)
    alone = RewardScorer.load(base.parent / "reward", base, [], tokenizer)
    trained = torch.load(base.parent / "trained.pt")
    assert alone.raw(rows) == pytest.approx(trained, abs=1e-4)
    # The score belongs to the stop token: another token after it changes it.
    assert alone.raw([row[:-1] for row in rows]) != pytest.approx(trained, abs=1e-3)
    assert len({round(score, 3) for score in trained}) == len(ANSWERS)


def test_beside_a_policy_it_takes_no_second_model_and_changes_nothing(base: Path) -> None:
    rows, tokenizer = scored_rows(base)
    torch.manual_seed(0)
    policy = new_adapter(load_model(base), LORA)
    actor = stirred(ActorCritic(policy))
    before, learned = policy.get_base_model().num_parameters(), names_of_trained(actor)
    batch = actor.batch([(row[:5], row[5:]) for row in rows])
    with torch.no_grad():
        logprobs = actor.score(batch, 1.0).logprobs
    drawn = torch.get_rng_state()
    scorer = RewardScorer.sharing(policy, base.parent / "reward", tokenizer)
    assert torch.equal(torch.get_rng_state(), drawn)
    small = sum(weight.numel() for name, weight in policy.named_parameters() if ".reward_model." in name)
    assert policy.get_base_model().num_parameters() - before == small < before / 5
    assert scorer.raw(rows) == pytest.approx(torch.load(base.parent / "trained.pt"), abs=1e-4)
    assert names_of_trained(actor) == learned
    with torch.no_grad():
        assert torch.equal(actor.score(batch, 1.0).logprobs, logprobs)
        with actor.reference():
            assert not torch.allclose(actor.score(batch, 1.0).logprobs, logprobs, atol=1e-4)
    # The head is on whatever device the trunk is.
    assert scorer._decoder is actor.causal.get_decoder()
    saved = base.parent / "saved"
    actor.save(saved)
    assert sorted(path.name for path in saved.iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "value_head.safetensors"
    ]  # fmt: skip


def names_of_trained(actor: ActorCritic) -> list[str]:
    return [name for name, weight in actor.named_parameters() if weight.requires_grad]


def test_a_class_that_transformers_has_no_classifier_of_gets_one() -> None:
    """Granite is one."""
    causal, tokens = model_of("granite"), torch.tensor([[5, 6, 7]])
    classifier: Any = sequence_classifier(causal)
    scores = classifier(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
    hidden = causal.get_decoder()(input_ids=tokens).last_hidden_state[:, -1]
    torch.testing.assert_close(scores, classifier.score(hidden))
