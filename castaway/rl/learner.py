"""What PPO does with a rollout: scores, advantages, the update, and what is learned from the teacher's corrections."""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from castaway.config.ppo import PpoParams
from castaway.datasets.jsonl import Row
from castaway.models.folded import folded
from castaway.models.reward import RewardScorer
from castaway.models.rows import in_passes
from castaway.models.tokens import ChatTokenizer
from castaway.rl.corrections import confirmed, correct, corrected
from castaway.rl.losses import KlCoefficient
from castaway.rl.ranks import Ranks
from castaway.rl.rewards import Readings, Sample, make_samples
from castaway.rl.update import Imitation, PolicyUpdate
from castaway.rollout.actor_critic import ActorCritic, TurnBatch
from castaway.rollout.trajectory import Trajectory, Turn
from castaway.teacher.agreement import Agreement

STALE_CAP = 2.0
"""`importance_cap` where the parameters have none and it is needed."""


class Learner:
    """The actor's optimisers, the KL coefficient, and the corrections so far."""

    def __init__(
        self,
        actor: ActorCritic,
        tokenizer: ChatTokenizer,
        scorer: RewardScorer,
        params: PpoParams,
        generator: torch.Generator,
        ranks: Ranks,
    ) -> None:
        """Train the actor's adapter and value head; `generator` shuffles the samples."""
        self._actor, self._scorer, self._params, self._ranks = actor, scorer, params, ranks
        self._update = PolicyUpdate(actor, params, generator, ranks)
        self._tokenizer = tokenizer
        self._imitation = Imitation(actor, params, tokenizer, ranks)
        # Another engine's log-probabilities of the same tokens differ, and in bfloat16 already those of a pass with
        # cached keys and values: there the update's ratio is against a new reading of the replies.
        self._rereads = params.loss.importance_cap is not None or actor.causal.dtype != torch.float32
        # A new reading is of the policy of the moment: if an earlier one drew the tokens, weights make up for that.
        may_be_stale = params.rollout.async_rollout or params.rollout.turns_per_step is not None
        self._cap = params.loss.importance_cap or (STALE_CAP if self._rereads and may_be_stale else None)
        self.kl = KlCoefficient(params.kl.coefficient, params.kl.adaptive_kl)
        self.corrections: list[Row] = []
        """The newest ones, for correction-SFT."""
        self.fresh: list[Row] = []
        """Those since the last SFT pass."""
        self.agreement = Agreement()

    def read(self, turns: Sequence[Turn]) -> Readings:
        """Each turn as the reference policy (adapter off) and the reward model read it, and where needed the actor."""
        pairs = [(turn.prompt_tokens, turn.reply_tokens) for turn in turns]
        with self._actor.reference():
            reference = [logprobs for logprobs, _ in self._scores(pairs)]
        own = [turn.logprobs for turn in turns]
        # What was played ahead was drawn one update before, at another distance from the reference.
        if self._rereads or self._params.rollout.async_rollout:
            read = self._scores(pairs)
            own = [logprobs for logprobs, _ in read]
            for turn, (_, values) in zip(turns, read, strict=True):
                turn.values = turn.values or values
        scores = [0.0] * len(turns)
        if self._params.reward_model_weight:
            scores = self._scorer.score([(turn.messages, turn.text) for turn in turns])
            # A replaced action is the teacher's: the student's words earn nothing of it.
            scores = [score if turn.valid else 0.0 for turn, score in zip(turns, scores, strict=True)]
        return Readings(reference, own, scores)

    def _scores(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[list[float], list[float]]]:
        """For each (prompt tokens, reply tokens): log-probabilities in nats and values of the reply's tokens."""
        scored: dict[int, tuple[list[float], list[float]]] = {}
        with torch.inference_mode(), folded(self._actor.policy):
            rows = [[*prompt, *reply] for prompt, reply in pairs]
            for group in in_passes(rows, self._params.tokens_per_pass):
                batch = self._actor.batch([pairs[index] for index in group])
                scores = self._actor.score(batch, self._params.rollout.temperature)
                both = zip(unpadded(scores.logprobs, batch), unpadded(scores.values, batch), strict=True)
                scored.update(zip(group, both, strict=True))
        return [scored[index] for index in range(len(pairs))]

    def advantages(self, trajectories: Sequence[Trajectory], readings: Readings) -> list[Sample]:
        """The turns with their advantages and returns; without a critic at the sampler, what follows is read here."""
        if cut := [(one, one.following) for one in trajectories if one.following]:
            for (one, _), (_, values) in zip(cut, self._scores([pair for _, pair in cut]), strict=True):
                one.bootstrap = values[0]
        coefficient = self.kl.value if self._params.kl.penalty_in == "reward" else 0.0
        ratio_to_sampler = not self._rereads
        return make_samples(trajectories, readings, self._params, coefficient, self._ranks, ratio_to_sampler, self._cap)

    def update(self, samples: Sequence[Sample], numbers: Sequence[int], step: int) -> dict[str, float]:
        """A few epochs of minibatches with the clipped losses; see `PolicyUpdate.update`."""
        in_loss = self.kl.value if self._params.kl.penalty_in == "loss" else 0.0
        return self._update.update(samples, numbers, step, in_loss)

    def correct(self, turns: Sequence[Turn], step: int) -> dict[str, float]:
        """Keep the corrections of all processes' turns; at intervals, make an SFT pass on the new ones."""
        params = self._params.corrections
        # Long prompts are sent between processes only where there is a dispute.
        judged: list[tuple[Any, ...]] = [
            (t.source, t.dispute, t.messages, t.text) if t.dispute else (t.source, None) for t in turns
        ]
        for part in self._ranks.gather(judged):
            for judgement in part:
                self.agreement.add(*judgement)
        wrong = [turn for turn in turns if corrected(turn)]
        fits = self._fits if params.critique else None
        mine = [correct(turn, fits) for turn in wrong], sum(not confirmed(turn) for turn in wrong)
        everybody = self._ranks.gather(mine)
        new = [correction for part, _ in everybody for correction in part]
        self.corrections = [*self.corrections, *new][-params.kept :]
        self.fresh += new
        metrics: dict[str, float] = {}
        if (step + 1) % params.sft_interval == 0 and len(self.fresh) >= params.sft_minimum:
            metrics["sft_loss"] = self._imitation.update(self.fresh, step)
            self.fresh = []
        return {**metrics, "corrections": float(sum(number for _, number in everybody))}

    def _fits(self, reply: str) -> bool:
        """Whether the policy could say this much: a longer target would teach it to be cut off."""
        return len(self._tokenizer.reply(reply)) <= self._params.rollout.max_new_tokens

    def state(self) -> dict[str, Any]:
        """All that is needed to go on, but the actor's weights."""
        return {
            "optimizer": copy.deepcopy(self._update.optimizer.state_dict()),
            "imitation_optimizer": copy.deepcopy(self._imitation.optimizer.state_dict()),
            "kl_coefficient": self.kl.value,
            "corrections": list(self.corrections),
            "fresh": list(self.fresh),
            "agreement": copy.deepcopy(self.agreement),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._update.optimizer.load_state_dict(state["optimizer"])
        self._imitation.optimizer.load_state_dict(state["imitation_optimizer"])
        self.kl.value = state["kl_coefficient"]
        self.corrections, self.fresh = list(state["corrections"]), list(state["fresh"])
        self.agreement = copy.deepcopy(state["agreement"])


def unpadded(values: torch.Tensor, batch: TurnBatch) -> list[list[float]]:
    """The rows of a (turns, longest reply) tensor, as long as their replies."""
    lengths = batch.mask.sum(1).int().tolist()
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]
