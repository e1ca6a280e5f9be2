"""The student as a speaker: prompts in, drawn replies out; and one that lets a reward model choose among several."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers import PreTrainedTokenizerBase

from castaway.models.scorer import Scorer
from castaway.models.tokens import prompt_tokens
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import follow, twin_of
from castaway.rl.rollout import Answer, Speaker
from castaway.rl.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import Prompt


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


@dataclass(frozen=True, slots=True)
class BestOf:
    """Draws `count` replies to each prompt and says the one with the highest score (Stiennon et al. 2020, 4.1)."""

    speaker: Speaker
    scorer: Scorer
    count: int

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt; of equal scores the first counts."""
        drawn = [self.speaker(prompts) for _ in range(self.count)]
        asked = [prompt.messages for prompt in prompts] * self.count
        texts = [answer.text for answers in drawn for answer in answers]
        scores = self.scorer.score(list(zip(asked, texts, strict=True)))
        by_draw = [scores[start : start + len(prompts)] for start in range(0, len(scores), len(prompts))]
        best = [max(range(self.count), key=lambda draw: by_draw[draw][place]) for place in range(len(prompts))]
        return [drawn[draw][place] for place, draw in enumerate(best)]


def reply_text(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    """A reply's tokens as text."""
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    assert isinstance(text, str)
    return text
