"""Policies: replies drawn from a model, and the best of several by a reward model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from castaway.models.scorer import Scorer
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import follow, twin_of
from castaway.rl.rollout import Generation, Policy
from castaway.rl.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import Prompt


class Sampler(Protocol):
    """A policy whose weights change in training."""

    def refresh(self) -> None:
        """Take the trained weights of this moment; replies are drawn from them until the next call."""
        ...

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt."""
        ...


class ModelPolicy:
    """Draws replies from an actor."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        rules: SamplingRules,
        generator: torch.Generator,
        apart: bool = False,
    ) -> None:
        """Draw from the actor's weights.

        Args:
            actor: the model.
            tokenizer: its tokenizer.
            rules: how replies are drawn.
            generator: decides all draws.
            apart: whether replies may be drawn while the actor is trained in another thread; they are drawn from a copy
                of its trained weights then, which `refresh` takes.
        """
        self._source = actor
        self._actor = twin_of(actor) if apart else actor
        self._tokenizer = copy.deepcopy(tokenizer) if apart else tokenizer
        self._rules, self._generator = rules, generator

    def refresh(self) -> None:
        """Draw from the actor's weights of this moment."""
        if self._actor is not self._source:
            follow(self._actor, self._source)

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt."""
        rows = [self._tokenizer.prompt(prompt.messages) for prompt in prompts]
        replies = sample_replies(self._actor, rows, self._rules, self._generator)
        return [
            Generation(
                text=self._tokenizer.text(reply.tokens),
                prompt_tokens=row,
                tokens=reply.tokens,
                logprobs=reply.logprobs,
                values=reply.values,
                cut_off=not self._tokenizer.ends(reply.tokens),
            )
            for row, reply in zip(rows, replies, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class BestOf:
    """Draws `count` replies to each prompt and takes the one with the highest score.

    Stiennon et al. 2020, "Learning to summarize from human feedback" (arXiv:2009.01325), section 4.1.
    """

    policy: Policy
    scorer: Scorer
    count: int

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt; of equal scores the first counts."""
        asked = [prompt for prompt in prompts for _ in range(self.count)]
        drawn = self.policy(asked)
        scores = self.scorer.score([(one.messages, reply.text) for one, reply in zip(asked, drawn, strict=True)])
        starts = range(0, len(asked), self.count)
        return [drawn[max(range(start, start + self.count), key=lambda place: scores[place])] for start in starts]
