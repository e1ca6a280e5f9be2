"""The student as a speaker: prompts in, drawn replies out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from castaway.envs.base import Prompt
from castaway.models.tokens import prompt_tokens
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.rollout import Answer
from castaway.rl.sampling import SamplingRules, sample_replies


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
    ) -> None:
        """Draw at this temperature, at most so many tokens a reply, from this generator, so many tokens at a time."""
        self._actor = actor
        self._tokenizer = tokenizer
        stop, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        assert isinstance(stop, int) and isinstance(pad, int)
        self._rules = SamplingRules(temperature, max_new_tokens, stop, pad, tokens_per_pass)
        self._generator = generator

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt."""
        rows = [prompt_tokens(self._tokenizer, prompt.messages) for prompt in prompts]
        samples = sample_replies(self._actor, rows, self._rules, self._generator)
        return [
            Answer(self._text(sample.tokens), row, sample.tokens, sample.logprobs, sample.values)
            for row, sample in zip(rows, samples, strict=True)
        ]

    def _text(self, tokens: list[int]) -> str:
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        assert isinstance(text, str)
        return text
