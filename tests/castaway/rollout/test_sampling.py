"""What was drawn has the probability that the trainer computes for it."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache
from transformers.cache_utils import Cache

from castaway.config.sections import LoraParams
from castaway.models.policy import new_adapter
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import (
    WORTHWHILE,
    SampledReply,
    SamplingRules,
    cache_with_room,
    sample_replies,
    shared_prefix,
)
from tests.castaway.models.classes import model_of
from tests.castaway.rl.small import stirred, student

PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15], [16, 17], [5, 6, 7]]


def drawn(
    actor: ActorCritic,
    temperature: float,
    tokens_per_pass: int = 512,
    seed: int = 3,
    prompts: Sequence[list[int]] = PROMPTS,
) -> list[SampledReply]:
    rules = SamplingRules(temperature, max_new_tokens=9, stops=frozenset({20}), pad=0, tokens_per_pass=tokens_per_pass)
    return sample_replies(actor, prompts, rules, torch.Generator().manual_seed(seed))


LONG = [5 + number % 13 for number in range(WORTHWHILE + 3)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("tokens_per_pass", [4096, 24])
@pytest.mark.parametrize("beginning", [[], LONG])
def test_the_samplers_probabilities_and_values_are_the_trainers(
    temperature: float, tokens_per_pass: int, beginning: list[int]
) -> None:
    actor = stirred(student()[0])
    prompts = [beginning + prompt for prompt in PROMPTS]
    samples = drawn(actor, temperature, tokens_per_pass, prompts=prompts)
    turns = actor.batch([(prompt, sample.tokens) for prompt, sample in zip(prompts, samples, strict=True)])
    with torch.no_grad():
        scores = actor.score(turns, temperature)
    for row, sample in enumerate(samples):
        length = len(sample.tokens)
        assert scores.logprobs[row, :length].tolist() == pytest.approx(sample.logprobs, abs=1e-5)
        assert scores.values[row, :length].tolist() == pytest.approx(sample.values, abs=1e-5)
        assert scores.logprobs[row, length:].abs().sum() == 0
    assert len({round(value, 6) for sample in samples for value in sample.values}) > 5


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of all tokens that are read."""
    shapes: list[tuple[int, ...]] = []
    read = ActorCritic.last_hidden_state

    def watched(self: ActorCritic, **inputs: Any) -> torch.Tensor:
        shapes.append(tuple(inputs["input_ids"].shape))
        return read(self, **inputs)

    monkeypatch.setattr(ActorCritic, "last_hidden_state", watched)
    return shapes


def test_what_all_prompts_begin_with_is_read_once(shapes: list[tuple[int, ...]]) -> None:
    actor = stirred(student()[0])
    drawn(actor, 1.0, 4096, prompts=[LONG + prompt for prompt in PROMPTS])
    # One of the five prompts comes twice.
    assert shapes[:3] == [(1, len(LONG)), (4, 7), (5, 1)]
    shapes.clear()
    drawn(actor, 1.0, 4096)
    assert shapes[:2] == [(4, 7), (5, 1)]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=4))
def test_what_rows_share_is_what_they_all_begin_with(rows: list[list[int]]) -> None:
    shared = shared_prefix(rows)
    assert all(row[:shared] == rows[0][:shared] and len(row) > shared for row in rows)
    longer = {tuple(row[: shared + 1]) for row in rows}
    assert len(longer) > 1 or any(len(row) == shared + 1 for row in rows)


def test_a_reply_ends_with_its_stop_token_or_at_the_limit() -> None:
    actor = student()[0]
    rules = SamplingRules(1.0, max_new_tokens=60, stops=frozenset({20}), pad=0)
    samples = sample_replies(actor, [[5]] * 64, rules, torch.Generator().manual_seed(0))
    assert min(len(sample.tokens) for sample in samples) < 60
    for sample in samples:
        assert (len(sample.tokens) == 60 or sample.tokens[-1] == 20) and 20 not in sample.tokens[:-1]
        assert len(sample.tokens) == len(sample.logprobs) == len(sample.values)


def test_the_reference_is_the_model_without_its_adapter() -> None:
    actor = stirred(student()[0])
    batch = actor.batch([([5, 6], [7, 8, 9]), ([5], [6])])
    with torch.no_grad():
        adapted = actor.score(batch, 1.0).logprobs
        with actor.reference():
            reference = actor.score(batch, 1.0).logprobs
        plain = student()[0]  # its adapter is new and changes nothing
        assert torch.equal(reference, plain.score(batch, 1.0).logprobs)
        assert not torch.allclose(adapted, reference)
        assert torch.equal(adapted, actor.score(batch, 1.0).logprobs)  # on again


def test_scores_are_log_probabilities_of_each_reply_token() -> None:
    actor = stirred(student()[0])
    with torch.no_grad():
        scores = actor.score(actor.batch([([5, 6], [7, 8])]), 0.5)
        logits = actor.policy(input_ids=torch.tensor([[5, 6, 7, 8]])).logits[0] / 0.5
    by_hand = torch.log_softmax(logits, -1)
    assert scores.logprobs[0].tolist() == pytest.approx([by_hand[1, 7].item(), by_hand[2, 8].item()], abs=1e-5)
    entropy = -(by_hand.exp() * by_hand).sum(-1)
    assert scores.entropy[0].tolist() == pytest.approx(entropy[1:3].tolist(), abs=1e-4)


@pytest.mark.parametrize("learn_entropy", [False, True])
def test_a_gradient_flows_from_the_entropy_if_it_is_to_be_learned(learn_entropy: bool) -> None:
    actor = stirred(student()[0])
    scores = actor.score(actor.batch([([5, 6], [7, 8])]), 1.0, learn_entropy=learn_entropy)
    assert scores.logprobs.requires_grad
    assert scores.entropy.requires_grad == learn_entropy


def test_rows_that_have_ended_are_computed_no_more(shapes: list[tuple[int, ...]]) -> None:
    rules = SamplingRules(1.0, max_new_tokens=40, stops=frozenset(range(20, 80)), pad=0)
    samples = sample_replies(stirred(student()[0]), PROMPTS * 8, rules, torch.Generator().manual_seed(0))
    longest = max(len(sample.tokens) for sample in samples)
    assert [rows for rows, _ in shapes] == [
        4,
        *(sum(len(sample.tokens) > place for sample in samples) for place in range(1, longest)),
    ]


def test_gradient_checkpointing_gives_the_same_gradients_and_leaves_sampling_alone() -> None:
    found, replies = [], []
    for checkpointing in (False, True):
        actor = stirred(student()[0])
        actor.policy.eval()
        if checkpointing:
            actor.causal.activation_checkpointing_enable({"use_reentrant": False})
        replies.append(drawn(actor, 1.0, prompts=[LONG + prompt for prompt in PROMPTS]))
        scores = actor.score(actor.batch([([5, 6, 7], [8, 9, 10, 11]), ([5], [6, 7])]), 1.0)
        (scores.logprobs.sum() + scores.values.sum()).backward()
        found.append([weight.grad for weight in actor.parameters() if weight.requires_grad])
        assert not actor.policy.training
    assert replies[0] == replies[1]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradient_checkpointing_does_not_begin_to_drop_out() -> None:
    """GPT-2's configuration has a dropout of 0.1 in attention and elsewhere."""
    policy = new_adapter(model_of("gpt2"), LoraParams(rank=2, alpha=2)).eval()
    actor = ActorCritic(policy)
    batch, found = actor.batch([([5, 6, 7], [8, 9, 10, 11]), ([5], [6, 7])]), []
    for checkpointing in (False, True):
        if checkpointing:
            actor.causal.activation_checkpointing_enable({"use_reentrant": False})
        found.append(actor.score(batch, 1.0).logprobs)
    assert torch.equal(*found)


def test_adapters_are_in_float32_on_weights_in_bfloat16() -> None:
    plain = student()[0]
    base = plain.causal.to(torch.bfloat16)
    assert {weight.dtype for weight in base.parameters()} == {torch.bfloat16}
    actor = ActorCritic(new_adapter(plain.policy.unload(), LoraParams(rank=4, alpha=8)))
    learned = [weight for weight in actor.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in learned} == {torch.float32}
    scores = stirred(actor).score(actor.batch([([5, 6, 7], [8, 9])]), 1.0)
    assert scores.logprobs.dtype == scores.values.dtype == torch.float32
    scores.logprobs.sum().backward()
    assert all(weight.grad is None or weight.grad.dtype == torch.float32 for weight in learned)


ROOM = 3


def add(caches: tuple[Cache, ...], rows: int, tokens: int) -> list[torch.Tensor]:
    """Add the same random tokens to a layer of each cache; returns the keys of the first and of the second."""
    keys, values = (torch.randn(rows, tokens, 2, 4).transpose(1, 2) for _ in range(2))
    found = [cache.update(keys, values, 0) for cache in caches]
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert len({cache.get_seq_length() for cache in caches}) == 1
    return [keys for keys, _ in found]


def test_it_holds_what_the_dynamic_cache_holds() -> None:
    torch.manual_seed(0)
    caches: tuple[Cache, ...] = (cache_with_room(ROOM), DynamicCache())
    add(caches, rows=1, tokens=5)
    for cache in caches:
        cache.batch_repeat_interleave(4)
    add(caches, rows=4, tokens=7)
    add(caches, rows=4, tokens=1)
    for cache in caches:
        cache.reorder_cache(torch.tensor([0, 2, 3]))
    for _ in range(2 * ROOM):
        last, _ = add(caches, rows=3, tokens=1)
    assert last.shape == (3, 2, 5 + 7 + 1 + 2 * ROOM, 4)


def test_a_token_is_added_in_place_while_there_is_room() -> None:
    caches = (cache_with_room(ROOM), cache_with_room(ROOM))
    places = [add(caches, rows=2, tokens=tokens)[0].data_ptr() for tokens in (6, *[1] * (ROOM + 1))]
    assert len(set(places[:-1])) == 1 and places[-1] not in places[:-1]
