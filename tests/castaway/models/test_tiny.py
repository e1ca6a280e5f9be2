"""The tiny model's tokenizer and chat template, and what is written to disk."""

from pathlib import Path
from typing import Any

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from castaway.config.sections import LoraParams
from castaway.models.policy import load_adapter, load_model, new_adapter
from castaway.models.reward import Scale
from castaway.models.tiny import PAD, SPECIAL_TOKENS, new_model, train_tokenizer
from castaway.models.tokens import ChatTokenizer, pad_left, positions
from castaway.rl.actor_critic import ActorCritic
from tests.castaway.rl.small import small_base, stirred, student

TOKENIZER = train_tokenizer(["piles WOOD_1 EAST 3\npack wood 0 room 4", "REASONING: a\nACTION: MOVE EAST"] * 5, 320)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example("  two  blanks\n\n\tand a tab\r\n")
@example("\u6d77\U0001f3dd e\u0301\x00")
@settings(deadline=None, max_examples=150)
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


def test_a_conversation_ends_every_message_with_the_stop_token() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert TOKENIZER.apply_chat_template(messages, tokenize=False) == "<|user|>a<|end|><|assistant|>b<|end|>"
    asked = TOKENIZER.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True)
    assert asked == "<|user|>a<|end|><|assistant|>"
    assert TOKENIZER.eos_token == "<|end|>" and TOKENIZER.pad_token == PAD


def test_the_mask_of_the_assistant_covers_its_words_and_stop_token() -> None:
    messages = [{"role": "user", "content": "WOOD_1"}, {"role": "assistant", "content": "ACTION: MOVE EAST"}]
    encoded = TOKENIZER.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    shown = [token for token, own in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if own]
    assert TOKENIZER.decode(shown) == "ACTION: MOVE EAST<|end|>"


def test_training_a_tokenizer_twice_gives_the_same() -> None:
    texts = ["wood metal wood", "metal apple"] * 3
    one, other = train_tokenizer(texts, 300), train_tokenizer(texts, 300)
    assert one.get_vocab() == other.get_vocab()


def test_rows_are_padded_on_the_left() -> None:
    tokens, mask = pad_left([[1, 2], [3]], 0)
    assert tokens.tolist() == [[1, 2], [0, 3]] and mask.tolist() == [[1, 1], [0, 1]]
    assert positions(mask).tolist() == [[0, 1], [0, 0]]


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
    again.load_value_head(adapter)
    batch = actor.batch([([5, 6], [7, 8, 9])])
    with torch.no_grad():
        one, other = actor.score(batch, 1.0), again.score(batch, 1.0)
        assert torch.equal(one.logprobs, other.logprobs) and torch.equal(one.values, other.values)
        merged = load_model(base, [adapter])(input_ids=tokens).logits
        assert torch.allclose(actor.policy(input_ids=tokens).logits, merged, atol=1e-5)
        assert not torch.allclose(load_model(base)(input_ids=tokens).logits, merged, atol=1e-3)


def test_an_adapter_is_written_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "other"):
        stirred(student()[0]).save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


def test_a_scale_comes_back_from_disk(tmp_path: Path) -> None:
    Scale(0.25, 2.0).save(tmp_path)
    assert Scale.load(tmp_path) == Scale(0.25, 2.0)
