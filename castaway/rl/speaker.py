"""The student as a speaker: prompts in, drawn replies out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import torch
from transformers import PreTrainedTokenizerBase

from castaway.envs.base import Prompt
from castaway.models.tokens import prompt_tokens
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import follow, twin_of
from castaway.rl.rollout import Answer
from castaway.rl.sampling import SamplingRules, sample_replies


class Sampler(Protocol):
    """A speaker whose weights change."""

    def refresh(self) -> None:
        """Draw from the trained weights of this moment, until the next time."""
        ...

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt."""
        ...


class ModelSpeaker:
    """Answers with replies drawn from an actor."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: PreTrainedTokenizerBase,
        temperature: float,
        max_new_tokens: int,
        generator: torch.Generator,
        tokens_per_pass: int,
        apart: bool = False,
    ) -> None:
        """Draw at this temperature, at most so many tokens a reply, from this generator, so many tokens at a time.

        Apart, it may speak while the actor is trained in another thread, and has the weights that `refresh` took.
        """
        self._source = actor
        self._actor = twin_of(actor) if apart else actor
        self._tokenizer = copy.deepcopy(tokenizer) if apart else tokenizer
        stop, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        assert isinstance(stop, int) and isinstance(pad, int)
        self._rules = SamplingRules(temperature, max_new_tokens, stop, pad, tokens_per_pass)
        self._generator = generator

    def refresh(self) -> None:
        """Draw from the actor's weights of this moment."""
        if self._actor is not self._source:
            follow(self._actor, self._source)

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt."""
        rows = [prompt_tokens(self._tokenizer, prompt.messages) for prompt in prompts]
        samples = sample_replies(self._actor, rows, self._rules, self._generator)
        return [
            Answer(reply_text(self._tokenizer, sample.tokens), row, sample.tokens, sample.logprobs, sample.values)
            for row, sample in zip(rows, samples, strict=True)
        ]


def reply_text(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    """A reply's tokens as text."""
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    assert isinstance(text, str)
    return text
