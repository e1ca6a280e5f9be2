"""Policies: replies drawn from a model, from its earlier versions, or the best of several by a reward model."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

import torch

from castaway.config.ppo import SelfPlayParams
from castaway.models.reward import RewardScorer
from castaway.models.tokens import ChatTokenizer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation, Policy
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Task


class Sampler(Protocol):
    """A policy whose weights change in training."""

    def refresh(self) -> None:
        """Take the trained weights of this moment; replies are drawn from them until the next call."""
        ...

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt."""
        ...


def twin_of(actor: ActorCritic) -> ActorCritic:
    """A copy of the actor that shares its frozen weights and has trained weights of its own."""
    # `deepcopy` takes what its memo holds as copied already, so the frozen weights are not copied.
    shared = {id(weight): weight for weight in actor.parameters() if not weight.requires_grad}
    return copy.deepcopy(actor, shared)


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

        With `apart`, replies may be drawn while the actor is trained in another thread: from a copy of its trained
        weights, which `refresh` takes.
        """
        self._source = actor
        self._actor = twin_of(actor) if apart else actor
        self._tokenizer = copy.deepcopy(tokenizer) if apart else tokenizer
        self._rules, self._generator = rules, generator

    def refresh(self) -> None:
        """Draw from the actor's weights of this moment."""
        if self._actor is self._source:
            return
        with torch.no_grad():
            for mine, theirs in zip(self._actor.parameters(), self._source.parameters(), strict=True):
                if theirs.requires_grad:
                    mine.copy_(theirs)

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
    scorer: RewardScorer
    count: int

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt; of equal scores the first counts."""
        asked = [prompt for prompt in prompts for _ in range(self.count)]
        drawn = self.policy(asked)
        scores = self.scorer.score([(one.messages, reply.text) for one, reply in zip(asked, drawn, strict=True)])
        starts = range(0, len(asked), self.count)
        return [drawn[max(range(start, start + self.count), key=lambda place: scores[place])] for start in starts]


Weights = dict[str, torch.Tensor]
"""An adapter, by the names of its weights in the policy."""


class FrozenPool:
    """The policy of the others in self-play: a twin of the actor, with the adapter of an earlier one.

    A pool keeps the adapter as it was when PPO began, which is the SFT policy, and then at an interval of steps; the
    oldest makes room. One of the pool is drawn for each step, so that all replies of the others in a round are one
    batch, next to the student's own. An episode that goes on into the next step meets the one that is drawn for that.
    """

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        params: SelfPlayParams,
        rules: SamplingRules,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        """Begin with the actor's policy of this moment; `seed` decides with the step which of the pool plays."""
        self._actor, self._params, self._seed = actor, params, seed
        self._frozen = twin_of(actor)
        # A tokenizer of its own: the learner may use the other one in another thread, and tokenizers are not safe for
        # two threads.
        self._policy = ModelPolicy(self._frozen, copy.deepcopy(tokenizer), rules, generator)
        self._members: list[Weights] = [_adapter(actor)]

    def draw(self, step: int) -> None:
        """Choose the policy of the pool that plays in the rollout of this step; all processes choose the same one.

        At intervals the actor's present policy joins the pool before that.
        """
        if step > 0 and step % self._params.interval == 0:
            self._members = [*self._members, _adapter(self._actor)][-self._params.size :]
        drawn = Random(f"rival {self._seed} {step}").choice(self._members)
        with torch.no_grad():
            for name, weight in self._frozen.policy.named_parameters():
                if weight.requires_grad:
                    weight.copy_(drawn[name])

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        """One reply for each prompt."""
        return self._policy(prompts)

    def state(self) -> list[Weights]:
        """The pool, the oldest first; nothing of it ever changes."""
        return list(self._members)

    def load_state(self, state: list[Weights]) -> None:
        """Go on from what `state` returned."""
        self._members = list(state)


def _adapter(actor: ActorCritic) -> Weights:
    """A copy in the machine's own memory: a pool must not take the accelerator's."""
    weights = actor.policy.named_parameters()
    return {name: weight.detach().to("cpu", copy=True) for name, weight in weights if weight.requires_grad}


def scripted(task: Task[Any], name: str, seed: int, random_action_rate: float) -> Policy:
    """A player without a model: the demonstrators, the expert, or `random`.

    `random` draws one of the actions that the rules list, so none with talk; where they list none, it stays idle.
    """
    random, environment = Random(seed), task.make()

    def lot(prompt: Prompt) -> Reply:
        listed = environment.rules.legal_actions(prompt.observation)
        return Reply(task.aimless, random.choice(listed or (environment.idle,)))

    demonstrator = task.demonstrator(random, random_action_rate)
    player = {"demonstrators": demonstrator, "expert": task.expert, "random": lot}[name]
    return lambda prompts: [Generation(str(player(prompt))) for prompt in prompts]
