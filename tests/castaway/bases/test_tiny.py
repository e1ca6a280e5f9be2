"""The tiny model's tokenizer and chat template, and what is written to disk."""

from pathlib import Path
from typing import Any

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from castaway.bases.tiny import SPECIAL_TOKENS, new_model, train_tokenizer
from castaway.config.sections import LoraParams
from castaway.models.policy import load_adapter, load_model, new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import VALUE_HEAD_FILE, ActorCritic
from tests.castaway.rl.small import small_base, stirred, student

TOKENIZER = train_tokenizer(["piles WOOD_1 EAST 3\npack wood 0 room 4", "REASONING: a\nACTION: MOVE EAST"] * 5, 320)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example("  two  blanks\n\n\tand a tab\r\n")
@example("\u6d77\U0001f3dd e\u0301\x00")
@settings(max_examples=150)
def test_any_text_round_trips(text: str) -> None:
    tokens = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    if not any(special in text for special in SPECIAL_TOKENS):
        assert TOKENIZER.decode(tokens, skip_special_tokens=True) == text


def test_whole_words_are_one_token_each_wherever_they_stand() -> None:
    words = ["Kathmandu", "27", "wrong,", "EAST"]
    tokenizer = train_tokenizer(["pack wood 0 room 4"] * 5, 300, words)
    text = "it is Kathmandu no, that is wrong, 27 EAST"
    whole = [piece[1:] for piece in tokenizer.tokenize(text) if piece[1:] in words]
    assert whole == ["Kathmandu", "wrong,", "27", "EAST"]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) == len(train_tokenizer(["pack wood 0 room 4"] * 5, 300)) + len(words)


def test_an_adapter_comes_back_from_disk_and_merges_to_the_same_logits(tmp_path: Path) -> None:
    tokenizer: Any = student()[1].tokenizer
    base, adapter, tokens = tmp_path / "base", tmp_path / "adapter", torch.tensor([[5, 6, 7, 8]])
    torch.manual_seed(0)
    new_model(small_base(), tokenizer).save_pretrained(base)
    tokenizer.save_pretrained(base)
    actor = stirred(ActorCritic(new_adapter(load_model(base), LoraParams(rank=4, alpha=8))))
    actor.save(adapter)
    assert sorted(path.name for path in adapter.iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "value_head.safetensors"
    ]  # fmt: skip
    assert str(tmp_path) not in (adapter / "adapter_config.json").read_text("utf-8")
    assert ChatTokenizer.load(base).tokenizer.get_vocab() == tokenizer.get_vocab()
    again = ActorCritic(load_adapter(load_model(base), adapter, trainable=False))
    again.value_head.load_state_dict(load_file(adapter / VALUE_HEAD_FILE))
    batch = actor.batch([([5, 6], [7, 8, 9])])
    with torch.no_grad():
        one, other = actor.score(batch, 1.0), again.score(batch, 1.0)
        assert torch.equal(one.logprobs, other.logprobs) and torch.equal(one.values, other.values)
        merged = load_model(base, [adapter])(input_ids=tokens).logits
        assert torch.allclose(actor.policy(input_ids=tokens).logits, merged, atol=1e-5)
        assert not torch.allclose(load_model(base)(input_ids=tokens).logits, merged, atol=1e-3)
