"""PPO over the turns of many agents, with a teacher at its side: `PpoTrainer.step` is the algorithm.

1. Rollout: the policy plays episodes on training ids, in self-play against an earlier one; the teacher judges its
   replies.
2. Scores: the reference policy (adapter off) and the reward model read every turn once.
3. Advantages: environment, penalty, reward model and KL as token rewards; dual-discount GAE, or groups.
4. Update: a few epochs of minibatches with the clipped losses.
5. Corrections: replies that were not legal are kept with the right ones; every few steps an SFT pass is made on them.
6. Validation: every few steps the policy plays validation ids by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from castaway.config.ppo import PpoParams
from castaway.models.reward import RewardScorer
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import return_large_blocks
from castaway.rl.checkpoint import random_states, set_random_states
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.learner import Learner
from castaway.rl.ranks import Ranks, attempted
from castaway.rl.rewards import NotFiniteError, Sample, fault_of
from castaway.rl.rollouts import Batch, Rollouts
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import play_episodes
from castaway.rollout.policies import FrozenPool, ModelPolicy, Sampler, Weights
from castaway.rollout.sampling import SamplingRules
from castaway.tasks.environment import TextEnvironment
from castaway.tasks.verdict import Teacher

STRIDE = 1_000_003
"""The distance between the seeds of two generators, in one process or in two."""


class PpoTrainer:
    """Everything that a training run changes, and the step that changes it."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        make: Callable[[], TextEnvironment],
        teacher: Teacher,
        scorer: RewardScorer,
        params: PpoParams,
        seed: int,
        source: EpisodeSource,
        sampler: Sampler | None = None,
        curves: Sequence[str] = (),
        validation: Sequence[tuple[int, str]] = (),
        ranks: Ranks | None = None,
    ) -> None:
        """Start at step 0, together with the other processes of the process group, if there is one.

        Args:
            actor: its adapter and value head are trained.
            make: makes an environment.
            seed: decides all draws, together with the rank of the process.
            sampler: draws the replies; None: this process does.
            curves: details of outcomes whose means are among the metrics.
            validation: ids and seats that the policy plays by itself now and then; none for no validation.
        """
        self.ranks = ranks or Ranks()
        self.actor, self.params, self._curves = actor, params, curves
        self.step_number = 0
        self.history: list[dict[str, float]] = []
        """The metrics of all steps so far."""
        device = next(actor.parameters()).device
        first = 3 * self.ranks.rank
        self.generators = [torch.Generator(device).manual_seed(seed + STRIDE * (first + k)) for k in range(3)]
        # One draws replies while the second, maybe in another thread, shuffles samples.
        drawing, shuffling, validating = self.generators
        training = SamplingRules.of(tokenizer, params.rollout)
        examining = SamplingRules.of(tokenizer, params.rollout, params.validation.temperature)
        sampling = sampler or ModelPolicy(actor, tokenizer, training, drawing, apart=params.rollout.async_rollout)
        alone = sampler or ModelPolicy(actor, tokenizer, examining, validating)
        pool = FrozenPool(actor, tokenizer, params.self_play, training, drawing, seed) if source.self_play else None
        self.rollouts = Rollouts(make, source, sampling, teacher, params, self.ranks, pool)
        self.learner = Learner(actor, tokenizer, scorer, params, shuffling, self.ranks)
        self.validation = Validation(make, alone, validation, params.validation.interval, self.ranks)
        return_large_blocks(actor.hidden_size)

    def step(self) -> dict[str, float]:
        """One step; returns its metrics, which are those of all processes.

        Raises:
            CastawayError: teacher or sampler failed, or a number is not finite. What the step has changed by then stays
                changed: to go on, load a state from before it.
        """
        with self.rollouts.next(self.step_number) as batch:  # `async_rollout`: the next one is played meanwhile
            readings = self.learner.read(batch.turns)
            samples = self.learner.advantages(batch.trajectories, readings)
            fault = fault_of(samples, self.step_number)
            metrics = self._summary(batch, samples, fault)
            metrics |= self.learner.update(samples, batch.numbers, self.step_number)
            self.learner.kl.adapt(metrics["reference_kl"])
            metrics |= self.learner.correct(batch.turns, self.step_number)
        self.step_number += 1
        if self.validation.due(self.step_number, self.params.steps):
            metrics["validation_success_rate"] = self.validation.play(self.trained())
        self.history.append(metrics)
        return metrics

    def _summary(self, batch: Batch, samples: Sequence[Sample], fault: NotFiniteError | None) -> dict[str, float]:
        """Metrics of a rollout, as means over all processes; those of whole episodes are left out if none has ended.

        A fault of one process is raised by all.
        """
        source, turns = self.rollouts.source, batch.turns
        played = [episode.outcome for episode in batch.finished if episode.seat == source.main_seat]
        mine: dict[str, list[float]] = {
            **{name: [outcome.details[name] for outcome in played] for name in self._curves},
            "success_rate": [float(outcome.success) for outcome in played],
            "mean_return": [part.reward for episode in batch.finished for part in episode.trajectories],
            "invalid_rate": [float(not turn.valid) for turn in turns],
            "penalty": [turn.penalty for turn in turns],
            "reward_model": [sample.model_score for sample in samples],
            "reference_kl": [value for sample in samples for value in sample.reference_kl],
            "reply_tokens": [float(len(turn.reply_tokens)) for turn in turns],
        }
        everybody = self.ranks.gather({name: (sum(values), len(values)) for name, values in mine.items()}, fault)
        sums = {name: [sum(part[name][k] for part in everybody) for k in (0, 1)] for name in mine}
        means = {name: total / count for name, (total, count) in sums.items() if count}
        counts = {"turns": float(sums["penalty"][1]), **source.metrics()}
        return {**means, **counts, "kl_coefficient": self.learner.kl.value}

    def finish(self) -> None:
        """Take the weights that `select` asks for, after the last step."""
        if self.params.select == "best" and self.validation.tasks:
            self._set_trained(self.validation.best())

    def state(self) -> dict[str, Any]:
        """All that a run needs to go on as if it had never stopped; every process must ask for it."""
        return {
            "step_number": self.step_number,
            "history": list(self.history),
            "random": self.ranks.gather(random_states()),
            "trained": {name: weight.detach().clone() for name, weight in self.trained().items()},
            "generators": self.ranks.gather([generator.get_state() for generator in self.generators]),
            "validation": self.validation.state(),
            **self.rollouts.state(),
            **self.learner.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._set_trained(state["trained"])
        self.step_number, self.history = state["step_number"], list(state["history"])
        for generator, drawn in zip(self.generators, state["generators"][self.ranks.rank], strict=True):
            generator.set_state(drawn)
        self.validation.load_state(state["validation"])
        self.rollouts.load_state(state)
        self.learner.load_state(state)
        set_random_states(state["random"][self.ranks.rank])

    def trained(self) -> Weights:
        """The trained weights themselves, by name."""
        return {name: weight for name, weight in self.actor.named_parameters() if weight.requires_grad}

    def _set_trained(self, weights: Mapping[str, torch.Tensor]) -> None:
        trained = self.trained()
        if trained.keys() != weights.keys():
            raise ValueError("the checkpoint holds other weights than those that are trained here")
        with torch.no_grad():
            for name, weight in trained.items():
                weight.copy_(weights[name])


@dataclass(slots=True)
class Validation:
    """How the policy does by itself, and the weights that did best.

    The curve `success_rate` of training counts episodes that the teacher helped in, replays, and whatever the
    curriculum draws. Here the policy plays the same validation ids every few steps, alone.
    """

    make: Callable[[], TextEnvironment]
    policy: Sampler
    """Draws replies from the weights of the moment."""
    tasks: Sequence[tuple[int, str]]
    """What is played each time, no training episode; none for no validation."""
    interval: int
    """Steps from one validation to the next."""
    ranks: Ranks
    """The processes, which share the episodes."""
    _best: tuple[float, Weights] | None = field(default=None, init=False)

    def due(self, step: int, steps: int) -> bool:
        """Whether the episodes are played after step `step` of `steps`; after the last one they always are."""
        return bool(self.tasks) and (step % self.interval == 0 or step == steps)

    def play(self, weights: Weights) -> float:
        """Play all episodes without a teacher, and keep a copy of the weights if none did better before.

        Returns:
            The share of successes, of all processes.
        """
        self.policy.refresh()
        tasks = self.ranks.share(self.tasks)
        played, fault = attempted(lambda: play_episodes(self.make, tasks, self.policy, teacher=None, parallel=128))
        parts = self.ranks.gather([episode.outcome.success for episode in played or ()], fault)
        successes = [success for part in parts for success in part]
        rate = sum(successes) / len(successes)
        # Of equals the later one: it has learned from more.
        if self._best is None or rate >= self._best[0]:
            self._best = rate, {name: weight.detach().clone() for name, weight in weights.items()}
        return rate

    def best(self) -> Weights:
        """The weights that did best; ValueError if nothing was played."""
        if self._best is None:
            raise ValueError("no validation episode was played")
        return self._best[1]

    def state(self) -> dict[str, Any]:
        """The best result, to go on from; empty before the first one."""
        return {"rate": self._best[0], "weights": self._best[1]} if self._best else {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._best = (state["rate"], state["weights"]) if state else None
