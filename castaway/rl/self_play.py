"""Self-play: earlier policies of the student play the others.

A pool keeps the adapter as it was when PPO began, which is the SFT policy, and then every so many steps; the oldest
makes room. One of the pool is drawn for each step, so that all replies of the others in a round are one batch, beside
the student's own. An episode that goes on into the next step meets the one that is drawn for that.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

import torch

from castaway.config.ppo import SelfPlayParams
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import twin_of
from castaway.rl.policies import ModelPolicy
from castaway.rl.rollout import Generation
from castaway.rl.sampling import SamplingRules
from castaway.tasks.environment import Prompt

Weights = dict[str, torch.Tensor]
"""An adapter, by the names of its weights in the policy."""


class FrozenPool:
    """The policy of the others: a twin of the actor, with the adapter of an earlier one."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        params: SelfPlayParams,
        rules: SamplingRules,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        """Begin with the actor's policy of this moment.

        Args:
            actor: the student.
            tokenizer: its tokenizer.
            params: how large the pool is, and how often it grows.
            rules: how replies are drawn.
            generator: decides the replies.
            seed: decides with the step which policy of the pool plays.
        """
        self._actor, self._params, self._seed = actor, params, seed
        self._frozen = twin_of(actor)
        # A tokenizer of its own: the learner may use the other one in another thread, and tokenizers are not safe for
        # two threads.
        self._policy = ModelPolicy(self._frozen, copy.deepcopy(tokenizer), rules, generator)
        self._members: list[Weights] = [_adapter(actor)]

    def draw(self, step: int) -> None:
        """Choose the policy of the pool that plays in the rollout of this step; all processes choose the same one."""
        drawn = Random(f"rival {self._seed} {step}").choice(self._members)
        with torch.no_grad():
            for name, weight in self._frozen.policy.named_parameters():
                if weight.requires_grad:
                    weight.copy_(drawn[name])

    def collect(self, step: int) -> None:
        """To be called when `step` steps are done: at intervals the actor's present policy joins the pool."""
        if step % self._params.interval == 0:
            self._members = [*self._members, _adapter(self._actor)][-self._params.size :]

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
    trained = ((name, weight) for name, weight in actor.policy.named_parameters() if weight.requires_grad)
    return {name: weight.detach().to("cpu", copy=True) for name, weight in trained}
