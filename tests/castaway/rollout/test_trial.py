"""The trial of the sampler: one that reads otherwise than training is refused before it plays."""

from typing import Any

import pytest
import torch

from castaway.config.errors import CastawayError
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.trial import check_sampler
from tests.castaway.models.classes import model_of
from tests.families import FAMILIES, tokenizer_of

TOKENIZER = ChatTokenizer(tokenizer_of(FAMILIES["qwen2"], ["Name a tree.", "seven times six"] * 5))


def actor_of(name: str) -> ActorCritic:
    return ActorCritic(model_of(name, vocab_size=len(TOKENIZER.tokenizer)))


def test_random_numbers_are_as_before() -> None:
    actor, state = actor_of("llama"), torch.get_rng_state()
    assert check_sampler(actor, TOKENIZER, "mine") < 1e-5
    assert torch.equal(torch.get_rng_state(), state)


def test_a_sampler_that_loses_the_positions_is_refused() -> None:
    actor = actor_of("llama")

    def shift(_: Any, args: Any, named: dict[str, Any]) -> Any:
        if named["input_ids"].shape[1] == 1:  # a drawn token, after the prompt
            named = {**named, "position_ids": named["position_ids"] + 30}
        return args, named

    actor.causal.get_decoder().register_forward_pre_hook(shift, with_kwargs=True)
    with pytest.raises(CastawayError, match=r"^mine is sampled from otherwise than trained: .* differ by"):
        check_sampler(actor, TOKENIZER, "mine")


def test_a_model_that_fails_while_it_is_sampled_from_is_refused_with_the_remedy() -> None:
    actor = actor_of("llama")

    def fail(*_: Any, **__: Any) -> Any:
        raise TypeError("this cache has no length")

    actor.causal.get_decoder().register_forward_pre_hook(fail, with_kwargs=True)
    with pytest.raises(CastawayError, match=r"^mine cannot be sampled from: .*no length; name another model as base"):
        check_sampler(actor, TOKENIZER, "mine")
