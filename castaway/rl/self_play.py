"""Self-play: earlier policies of the student sit in the other seats.

A pool keeps the adapter as it was when PPO began, which is the SFT policy, and then every so many steps; the oldest
makes room. One of the pool is drawn for each step, so that all replies of the others in a round are one batch, beside
the student's own. An episode that goes on into the next step meets the one that is drawn for that.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

import torch
from transformers import PreTrainedTokenizerBase

from castaway.config.params import PpoParams
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import twin_of
from castaway.rl.rollout import Answer
from castaway.rl.speaker import ModelSpeaker
from castaway.tasks.environment import Prompt

Weights = dict[str, torch.Tensor]
"""An adapter, by the names of its weights in the policy."""


class FrozenPool:
    """A speaker for the others: a twin of the actor, with the adapter of an earlier one."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: PreTrainedTokenizerBase,
        params: PpoParams,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        """Begin with the actor's policy of this moment.

        Replies are drawn from `generator`, at the student's temperature; who draws them, `seed` decides with the step.
        """
        self._actor, self._params, self._seed = actor, params.self_play, seed
        self._frozen = twin_of(actor)
        # Its own, for the learner may use the other one in another thread.
        mine = copy.deepcopy(tokenizer)
        limits = (params.temperature, params.max_new_tokens)
        self._speaker = ModelSpeaker(self._frozen, mine, *limits, generator, params.tokens_per_pass)
        self._members: list[Weights] = [_adapter(actor)]

    def draw(self, step: int) -> None:
        """Let one of the pool speak in the rollout of this step; all processes draw the same one."""
        drawn = Random(f"rival {self._seed} {step}").choice(self._members)
        with torch.no_grad():
            for name, weight in self._frozen.policy.named_parameters():
                if weight.requires_grad:
                    weight.copy_(drawn[name])

    def collect(self, step: int) -> None:
        """So many steps are done: if it is time, the actor's policy of this moment joins the pool."""
        if step % self._params.interval == 0:
            self._members = [*self._members, _adapter(self._actor)][-self._params.size :]

    def __call__(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One reply for each prompt."""
        return self._speaker(prompts)

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
