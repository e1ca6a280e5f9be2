"""PPO over the turns of many agents, with a teacher at its side.

One step:

1. Rollout: the policy plays episodes on training ids, in self-play against an earlier one; the teacher judges its
   replies.
2. Scores: the reference policy (adapter off) and the reward model read every turn once.
3. Advantages: environment, penalty, reward model and KL as token rewards; dual-discount GAE, or groups.
4. Update: a few epochs of minibatches with the clipped losses.
5. Corrections: replies that were not legal are kept with the right ones; every few steps an SFT pass is made on them.
6. Validation: every few steps the policy plays validation ids by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from castaway.config.ppo import PpoParams
from castaway.models.memory import return_large_blocks
from castaway.models.scorer import Scorer
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.ahead import meanwhile
from castaway.rl.continuing import Batch, ContinuingRollout
from castaway.rl.corrections import Correction, confirms, correct, corrected, correction_tokens
from castaway.rl.draws import EvenDraws
from castaway.rl.kl import KlCoefficient
from castaway.rl.outages import played_by_all
from castaway.rl.policies import ModelPolicy, Sampler
from castaway.rl.ranks import Ranks
from castaway.rl.rewards import Sample, make_samples
from castaway.rl.rollout import play_episodes
from castaway.rl.sampling import SamplingRules
from castaway.rl.self_play import FrozenPool
from castaway.rl.summary import summarise
from castaway.rl.tasks import TaskSource
from castaway.rl.trajectory import Episode, Trajectory, Turn, by_trajectory
from castaway.rl.update import PolicyUpdate
from castaway.rl.validation import Validation
from castaway.tasks.environment import SELF_PLAY, TextEnvironment
from castaway.teacher.agreement import Agreement
from castaway.teacher.base import Teacher

STRIDE = 1_000_003
"""The distance between the seeds of two processes."""


class PpoTrainer:
    """Everything that a training run changes, and the step that changes it."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        make: Callable[[], TextEnvironment],
        teacher: Teacher,
        scorer: Scorer,
        params: PpoParams,
        seed: int,
        source: TaskSource,
        served: Callable[[ActorCritic, torch.Generator], Sampler] | None = None,
        curves: Sequence[str] = (),
        validation: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Start at step 0, together with the other processes of the process group, if there is one.

        Args:
            actor: the policy with its value head; its adapter and value head are trained.
            tokenizer: the policy's.
            make: makes an environment.
            teacher: judges every reply.
            scorer: the reward model.
            params: of the method.
            seed: decides all draws, together with the rank of the process.
            source: gives the episodes to be played.
            served: makes the sampler, if replies are not drawn in this process.
            curves: details of outcomes whose means are among the metrics.
            validation: ids and seats that the policy plays by itself now and then; none for no validation.
        """
        self.ranks = Ranks()
        self.actor, self.params, self.source = actor, params, source
        self.step_number = 0
        device = next(actor.parameters()).device
        # One draws replies while the second, maybe in another thread, shuffles samples; the third is for validation.
        self.generators = [torch.Generator(device).manual_seed(seed + STRIDE * self.ranks.rank) for _ in range(3)]
        self.kl = KlCoefficient(params.kl_coefficient, params.adaptive_kl)
        self.corrections: list[Correction] = []
        self.fresh: list[Correction] = []
        """Corrections since the last SFT pass."""
        self.agreement = Agreement()
        self._ready: Batch | None = None
        """Played while the last update was made."""
        self._rescores = params.importance_cap is not None or actor.causal.dtype != torch.float32
        """Whether the update's ratio is against a new reading of the replies: another engine's log-probabilities of
        the same tokens differ, and in bfloat16 already those of a pass with cached keys and values."""
        self._tokenizer, self._curves = tokenizer, curves
        self._make, self._teacher, self._scorer = make, teacher, scorer
        self._sampler = served(actor, self.generators[0]) if served else self._own_sampler()
        self._rival = self._frozen_pool(seed)
        self._validation = self._made_validation(validation, served is not None) if validation else None
        self._update = PolicyUpdate(actor, params, self.generators[1], self.ranks)
        return_large_blocks(actor.hidden_size)
        tables = len(self.ranks.share(range(params.episodes_per_step)))
        self._draws = EvenDraws(source, self.ranks)
        self._continuing = ContinuingRollout(make, self._draws.draw, self._sampler, teacher, tables, self._rival)

    def _sampling_rules(self, temperature: float) -> SamplingRules:
        most, limit = self.params.max_new_tokens, self.params.sampling_tokens_per_pass
        return SamplingRules.of(self._tokenizer, temperature=temperature, max_new_tokens=most, tokens_per_pass=limit)

    def _own_sampler(self) -> Sampler:
        rules = self._sampling_rules(self.params.temperature)
        return ModelPolicy(self.actor, self._tokenizer, rules, self.generators[0], apart=self.params.ahead)

    def _frozen_pool(self, seed: int) -> FrozenPool | None:
        """The earlier policies, if a stage of the curriculum is played against them."""
        if not any(SELF_PLAY in stage.seats for stage in self.source.curriculum.stages):
            return None
        rules = self._sampling_rules(self.params.temperature)
        return FrozenPool(self.actor, self._tokenizer, self.params.self_play, rules, self.generators[0], seed)

    def _made_validation(self, tasks: Sequence[tuple[int, str]], served: bool) -> Validation:
        rules = self._sampling_rules(self.params.validation.temperature)
        alone = self._sampler if served else ModelPolicy(self.actor, self._tokenizer, rules, self.generators[2])
        return Validation(self._make, alone, tasks, self.ranks)

    def step(self) -> dict[str, float]:
        """One step; returns its metrics, which are those of all processes."""
        self._sampler.refresh()
        if self._rival:
            self._rival.draw(self.step_number)
        batch = self._ready or self._played(self._rollout)
        # Before the next rollout is drawn, which may be played meanwhile.
        self._report(batch.finished)
        if not self.params.ahead or self.step_number + 1 >= self.params.steps:
            self._ready = None
            return {**self._learn(batch), **self._validate()}
        with meanwhile(self._rollout) as next_batch:
            summary = self._learn(batch)
            self._ready = self._played(next_batch)
        return {**summary, **self._validate()}

    def _validate(self) -> dict[str, float]:
        """The share of validation episodes in which the policy succeeds by itself, if it is time to play them."""
        due = self.step_number % self.params.validation.interval == 0 or self.step_number == self.params.steps
        if self._validation is None or not due:
            return {}
        self._sampler.refresh()
        return {"validation_success_rate": self._validation.play(dict(self._trained()))}

    def finish(self) -> None:
        """Take the weights that `keep` asks for, after the last step."""
        if self.params.keep == "best" and self._validation is not None:
            self._set_trained(self._validation.best())

    def _learn(self, batch: Batch) -> dict[str, float]:
        """All of a step but its rollout."""
        samples, scores = self._samples(batch.trajectories)
        in_loss = self.kl.value if self.params.kl_in == "loss" else 0.0
        played = [episode for episode in batch.finished if episode.seat == self.source.main_seat]
        own = {name: [episode.outcome.details[name] for episode in played] for name in self._curves}
        own["success_rate"] = [float(episode.outcome.success) for episode in played]
        figures = summarise(self.ranks, batch.finished, samples, scores, own)
        summary = {**figures, **self._standing, "kl_coefficient": self.kl.value}
        losses = self._update.update(samples, self._numbers(batch), self.step_number, in_loss)
        self.kl.adapt(summary["reference_kl"])
        found = self._collect(batch.trajectories)
        self.step_number += 1
        if self.step_number % self.params.sft_interval == 0 and len(self.fresh) >= self.params.sft_minimum:
            losses["sft_loss"] = self._update.imitate([correction_tokens(self._tokenizer, c) for c in self.fresh])
            self.fresh = []
        if self._rival:
            self._rival.collect(self.step_number)
        return {**summary, **losses, "corrections": float(found)}

    def state(self) -> dict[str, Any]:
        """All that a run needs to go on as if it had never stopped; every process must ask for it."""
        return {
            "step_number": self.step_number,
            "trained": {name: w.detach().clone() for name, w in self._trained()},
            "optimizer": copy.deepcopy(self._update.optimizer.state_dict()),
            "kl_coefficient": self.kl.value,
            "source": self.ranks.gather(self.source.state()),
            "generators": self.ranks.gather([generator.get_state() for generator in self.generators]),
            "games": self.ranks.gather(self._continuing.state()),
            "corrections": list(self.corrections),
            "fresh": list(self.fresh),
            "ready": self.ranks.gather(self._ready),
            "agreement": copy.deepcopy(self.agreement),
            "pool": self._rival.state() if self._rival else [],
            "validation": self._validation.state() if self._validation else {},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._set_trained(state["trained"])
        self.step_number = state["step_number"]
        self._update.optimizer.load_state_dict(state["optimizer"])
        self.kl.value = state["kl_coefficient"]
        self.source.load_state(state["source"][self.ranks.rank])
        for generator, drawn in zip(self.generators, state["generators"][self.ranks.rank], strict=True):
            generator.set_state(drawn)
        self._continuing.load_state(state["games"][self.ranks.rank])
        self.corrections, self.fresh = list(state["corrections"]), list(state["fresh"])
        self.agreement = copy.deepcopy(state["agreement"])
        self._ready = state["ready"][self.ranks.rank]
        if self._rival:
            self._rival.load_state(state["pool"])
        if self._validation:
            self._validation.load_state(state["validation"])

    def _set_trained(self, weights: Mapping[str, torch.Tensor]) -> None:
        trained = dict(self._trained())
        if trained.keys() != weights.keys():
            raise ValueError("the checkpoint holds other weights than those that are trained here")
        with torch.no_grad():
            for name, weight in trained.items():
                weight.copy_(weights[name])

    def _trained(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name, weight) for name, weight in self.actor.named_parameters() if weight.requires_grad]

    # 1. Rollout ----------------------------------------------------------------------------------------------------

    def _played(self, play: Callable[[], Batch]) -> Batch:
        """The rollout that `play` makes or waits for, once every process has its own and has drawn as many episodes."""
        batch = played_by_all(play, self.ranks)
        self._draws.even()
        return batch

    def _report(self, episodes: Sequence[Episode]) -> None:
        """Tell the source how everybody's episodes went; what the teacher helped with is no success of the student."""
        mine = [self.source.report((e.task_id, e.seat), e.alone, e.score) for e in episodes]
        self.source.learn(report for part in self.ranks.gather(mine) for report in part)
        self._standing = self.source.metrics()

    def _rollout(self) -> Batch:
        if self.params.turns_per_step is not None:
            return self._continuing.play(-(-self.params.turns_per_step // self.ranks.count))
        size, lanes, rival = self.params.group_size, self.params.lanes, self._rival
        drawn = [self.source.draw(size) for _ in range(self.params.episodes_per_step // size)]
        tasks = self.ranks.share([task for task in drawn for _ in range(size)])
        episodes = play_episodes(
            self._make, tasks, self._sampler, self._teacher, parallel=len(tasks), lanes=lanes, rival=rival
        )
        trajectories = [trajectory for episode in episodes for trajectory in episode.trajectories]
        return Batch(trajectories=trajectories, finished=episodes)

    def _numbers(self, batch: Batch) -> list[int]:
        """Numbers of this process's samples: in the order in which one process would have played the episodes."""
        if self.params.turns_per_step is None:
            parts = [sum(len(t.turns) for t in episode.trajectories) for episode in batch.finished]
        else:
            parts = [len(trajectory.turns) for trajectory in batch.trajectories]
        return self.ranks.numbers(parts)

    # 2. Scores, 3. Advantages --------------------------------------------------------------------------------------

    def _samples(self, trajectories: Sequence[Trajectory]) -> tuple[list[Sample], list[float]]:
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        pairs = [(turn.prompt_tokens, turn.reply_tokens) for turn in turns]
        with self.actor.reference():
            references = by_trajectory([logprobs for logprobs, _ in self._update.score_all(pairs)], trajectories)
        own = None
        # What was played ahead was drawn one update before, at another distance from the reference.
        if self._rescores or self.params.ahead:
            read = self._update.score_all(pairs)
            own = by_trajectory([logprobs for logprobs, _ in read], trajectories)
            for turn, (_, values) in zip(turns, read, strict=True):
                turn.values = turn.values or values
        scores = [0.0] * len(turns)
        if self.params.reward_model_weight:
            scores = self._scorer.score([(turn.messages, turn.text) for turn in turns])
            # A replaced action is the teacher's: the student's words earn nothing of it.
            scores = [score if turn.valid else 0.0 for turn, score in zip(turns, scores, strict=True)]
        in_reward = self.kl.value if self.params.kl_in == "reward" else 0.0
        found = (trajectories, references, by_trajectory(scores, trajectories))
        return make_samples(*found, self.params, in_reward, own, self.ranks, not self._rescores), scores

    # 5. Corrections ------------------------------------------------------------------------------------------------

    def _collect(self, trajectories: Sequence[Trajectory]) -> int:
        turns = [turn for trajectory in trajectories for turn in trajectory.turns]
        for part in self.ranks.gather([_judgement(turn) for turn in turns]):
            for judgement in part:
                self.agreement.add(*judgement)
        mine = [correct(turn) for turn in turns if corrected(turn)]
        found = [correction for part in self.ranks.gather(mine) for correction in part]
        self.corrections = [*self.corrections, *found][-self.params.corrections_kept :]
        self.fresh += found
        return sum(not confirms(correction) for correction in found)


def _judgement(turn: Turn) -> tuple[Any, ...]:
    """Arguments for `Agreement.add`; long prompts are sent between processes only where there is a dispute."""
    return (turn.source, turn.dispute, turn.messages, turn.text) if turn.dispute else (turn.source, None)
