"""Token rewards and advantages of the turns of a rollout, ready for the update.

Every number that is learned from is finite, or training stops: with the step, the batch and the turn that did it. A NaN
would otherwise be in all weights after one step of the optimiser, and nothing would say where it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from math import isfinite, sqrt

import torch

from castaway.config.errors import CastawayError
from castaway.config.ppo import PpoParams
from castaway.rl.advantages import ESTIMATORS, Discounts, Member, gae, group_advantages, returns
from castaway.rl.losses import KlEstimator, kl_estimate
from castaway.rl.ranks import Ranks
from castaway.rollout.trajectory import Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Readings:
    """What models read in the turns of a rollout: each field has one entry for each turn."""

    reference: list[list[float]]
    """(reply tokens) log-probabilities in nats under the reference policy."""
    own: list[list[float]]
    """The same under the trainer's policy before the update: what the distance from the reference is measured by."""
    model_scores: list[float]
    """The reward model's, in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One turn as PPO learns from it; all lists have one number for each token of the reply."""

    turn: Turn
    place: str
    """Which turn it is, for messages."""
    reference: list[float]
    own: list[float]
    model_score: float
    """As in `Readings`."""
    advantages: list[float]
    """Normalised; see `make_samples`."""
    returns: list[float]
    """What the value function is to predict: advantages before they were normalised, plus values."""
    old_logprobs: list[float]
    """What the update's ratio is against: `own` or, where the sampler's numbers are as exact, the log-probabilities
    that the tokens were drawn with."""
    importance: list[float] | None
    """Weights of the tokens, if another engine or an earlier policy drew them (`truncated_importance`)."""

    @property
    def reference_kl(self) -> list[float]:
        """The distance from the reference policy in nats, by k3: never negative, as no KL divergence is."""
        values: list[float] = kl_estimate(torch.tensor(self.own), torch.tensor(self.reference), "k3").tolist()
        return values


def turn_reward(turn: Turn, model_score: float, params: PpoParams) -> float:
    """The reward of one turn, in the units that the value function predicts.

    reward_scale * (environment + penalty_weight * penalty) + reward_model_weight * reward model

    What the environment paid in later rounds, in which the agent had no turn, is discounted by gamma_turn for each.

    If the reply was cut off, a gain is multiplied by `truncated_reward_factor`, and a loss stays as it is: the part
    that is missing might have been anything, and paying for it in full would teach the policy not to stop.
    """
    gamma = params.advantage.gamma_turn
    early = sum((1.0 - gamma**rounds) * amount for rounds, amount in enumerate(turn.later, start=1))
    paid = params.reward_scale * (turn.reward - early + params.penalty_weight * turn.penalty)
    paid += params.reward_model_weight * model_score
    return paid * params.truncated_reward_factor if turn.cut_off and paid > 0 else paid


def token_rewards(
    logprobs: Sequence[float],
    reference: Sequence[float],
    reward: float,
    kl_coefficient: float,
    estimator: KlEstimator,
) -> list[float]:
    """The reward of each token: minus kl_coefficient * KL(p || p_ref), and on the last token the turn's reward as well.

    Log-probabilities are in nats, under the trainer's policy p before the update and the reference policy p_ref.
    """
    estimate = kl_estimate(
        torch.tensor(logprobs, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64), estimator
    )
    rewards: list[float] = (-kl_coefficient * estimate).tolist()
    rewards[-1] += reward
    return rewards


def make_samples(
    trajectories: Sequence[Trajectory],
    readings: Readings,
    params: PpoParams,
    kl_coefficient: float,
    ranks: Ranks | None = None,
    ratio_to_sampler: bool = False,
    importance_cap: float | None = None,
) -> list[Sample]:
    """One sample for each turn of a batch, with advantages normalised over the batch or within each role.

    Roles that are paid on different scales need the latter: next to a well-paid crew everything that a traitor says is
    below the average, so that all of its words are driven out alike, and gibberish is what remains.

    A turn whose action was put in its place by the teacher is part of the trajectory, since the world went on from it,
    but its own words earn only the process penalty: what the teacher's action brought is not credited to them.

    Args:
        trajectories: of all agents and episodes.
        readings: of their turns, one trajectory after another.
        params: weights and discounts.
        kl_coefficient: of the penalty inside the reward; 0 if it is not there.
        ranks: the processes whose turns are one batch.
        ratio_to_sampler: whether the update's ratio is against the log-probabilities of the sampler, not against `own`.
        importance_cap: of the weights of the tokens; None for no weights.
    """
    ranks = ranks or Ranks()
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    by_turn = list(zip(turns, readings.reference, readings.own, readings.model_scores, strict=True))
    rewards = (
        token_rewards(own, reference, turn_reward(turn, score, params), kl_coefficient, params.kl.estimator)
        for turn, reference, own, score in by_turn
    )
    paid = [list(islice(rewards, len(trajectory.turns))) for trajectory in trajectories]
    places = [f"turn {n} of {t.agent} in episode {t.task_id}" for t in trajectories for n in range(1, 1 + len(t.turns))]
    advantages, targets = _advantages(trajectories, paid, params, ranks)
    return [
        Sample(
            turn=turn,
            place=place,
            reference=reference,
            own=own,
            model_score=score,
            advantages=turn_advantages,
            returns=turn_returns,
            old_logprobs=turn.logprobs if ratio_to_sampler else own,
            importance=truncated_importance(own, turn.logprobs, importance_cap) if importance_cap else None,
        )
        for (turn, reference, own, score), place, turn_advantages, turn_returns in zip(
            by_turn, places, advantages, targets, strict=True
        )
    ]


def _advantages(
    trajectories: Sequence[Trajectory],
    rewards: Sequence[Sequence[list[float]]],
    params: PpoParams,
    ranks: Ranks,
) -> tuple[list[list[float]], list[list[float]]]:
    """For each turn, the normalised advantages of its tokens, and the returns that the critic is to predict."""
    own = params.advantage
    discounts = Discounts(own.gamma_turn, own.lambda_turn, own.gamma_token, own.lambda_token)
    estimator = ESTIMATORS[own.estimator]
    rounds = [[1 + len(turn.later) for turn in trajectory.turns] for trajectory in trajectories]
    discounted: list[list[list[float]]] = [[] for _ in trajectories]
    if estimator.compare:
        discounted = [returns(paid, discounts, passed) for paid, passed in zip(rewards, rounds, strict=True)]
    by_role = estimator.group == "role"
    mine = [
        Member(t.role if by_role else (t.task_id, t.agent, t.role), t.task_id, [turn[0] for turn in turns], t.role)
        for t, turns in zip(trajectories, discounted, strict=True)
    ]
    everybody = [member for part in ranks.gather(mine) for member in part]
    if estimator.compare:
        compared = group_advantages(list(zip(mine, discounted, strict=True)), everybody, estimator)
        advantages, targets = [turn for turns in compared for turn in turns], [t for turns in discounted for t in turns]
    else:
        advantages, targets = [], []
        for trajectory, paid, passed in zip(trajectories, rewards, rounds, strict=True):
            values = [turn.values for turn in trajectory.turns]
            estimated = gae(paid, values, discounts, passed, trajectory.bootstrap)
            advantages += estimated
            targets += [[a + v for a, v in zip(*pair, strict=True)] for pair in zip(estimated, values, strict=True)]
    return _normalise_groups(trajectories, advantages, {member.role for member in everybody}, params, ranks), targets


def _normalise_groups(
    trajectories: Sequence[Trajectory], raw: Sequence[list[float]], roles: Set[str], params: PpoParams, ranks: Ranks
) -> list[list[float]]:
    """Normalise the advantages of each role by itself, or of the batch, over all processes, which have these roles."""
    if params.advantage.normalise_by == "batch":
        return _normalise([turn for trajectory in trajectories for turn in trajectory.turns], raw, params, ranks)
    turns = [(trajectory.role, turn) for trajectory in trajectories for turn in trajectory.turns]
    normalised: list[list[float]] = [[]] * len(turns)
    # All processes go through all roles, also those that they have no turns of: each takes part in every sum.
    for role in sorted(roles):
        members = [number for number, (own, _) in enumerate(turns) if own == role]
        rows = _normalise([turns[number][1] for number in members], [raw[number] for number in members], params, ranks)
        for number, row in zip(members, rows, strict=True):
            normalised[number] = row
    return normalised


def _normalise(turns: Sequence[Turn], raw: Sequence[list[float]], params: PpoParams, ranks: Ranks) -> list[list[float]]:
    """Whiten over the credited tokens, or only scale; replaced turns get their penalty on the same scale."""
    flat = torch.tensor([value for row in raw for value in row])
    credited = torch.tensor([float(turn.valid) for turn, row in zip(turns, raw, strict=True) for _ in row])
    whitened, mean, deviation = normalise(flat, credited, ranks.sum)
    how = ESTIMATORS[params.advantage.estimator].normalise
    if how != "whiten":
        scale = deviation if how == "scale" else torch.ones_like(deviation)
        whitened = whitened * (deviation / scale) + mean / scale * credited
    rows = [list(row) for row in whitened.split([len(row) for row in raw])]
    weight = params.reward_scale * params.penalty_weight / float(deviation)
    return [
        [float(value) for value in row] if turn.valid else [weight * turn.penalty] * len(row)
        for turn, row in zip(turns, rows, strict=True)
    ]


def truncated_importance(trainer: Sequence[float], sampler: Sequence[float], cap: float) -> list[float]:
    """Weights for tokens that another engine or an earlier policy drew.

    Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training":

    w = min(exp(log p_trainer - log p_sampler), cap)

    log p_trainer is the trainer's reading of the policy before the update, log p_sampler what the token was drawn with,
    in nats. An inference server rounds otherwise than the trainer, and replies that were played ahead or carried over
    were drawn by other weights (Noukhovitch et al. 2024, arXiv:2410.18252); without w the gradient is biased, and
    without the cap its variance has no bound. The clip is around p_trainer, as in decoupled PPO (Hilton et al. 2022,
    arXiv:2110.00641), so that rounding clips no token: at the start w * ratio = p_trainer / p_sampler.
    """
    weights: list[float] = torch.exp(torch.tensor(trainer) - torch.tensor(sampler)).clamp(max=cap).tolist()
    return weights


def normalise(
    values: torch.Tensor, mask: torch.Tensor, total: Callable[[torch.Tensor], torch.Tensor] = lambda part: part
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Shift and scale values to mean 0 and standard deviation 1 over the mask.

    With fewer than two values, or all alike, the deviation is taken as 1, so that constant rewards move nothing.

    Args:
        values: of one dimension.
        mask: 1.0 where a value counts.
        total: adds up what several processes hold.

    Returns:
        The normalised values, 0 outside the mask; the mean; the standard deviation.
    """
    count = total(mask.sum()).clamp(min=1.0)
    mean = total((values * mask).sum()) / count
    variance = total(((values - mean) ** 2 * mask).sum()) / count
    # Python's square root: torch's, of float32, is rounded otherwise by each maker's processors.
    root = sqrt(variance.item())
    deviation = variance.new_tensor(root if root > 1e-6 else 1.0)
    return (values - mean) / deviation * mask, mean, deviation


class NotFiniteError(CastawayError):
    """A number is NaN or infinite."""

    def __init__(self, what: str, where: str, place: str) -> None:
        """Name the number, the step and batch, and the turn."""
        super().__init__(
            f"{where}: {what} is not finite, first in {place}; the checkpoint is from before this step, "
            "so set a lower learning rate or mend the reward, and run the stage again"
        )

    def __reduce__(self) -> tuple[type[CastawayError], tuple[str]]:
        """As a plain error between processes: the sentence is made already."""
        return CastawayError, (str(self),)


def fault_of(samples: Sequence[Sample], step: int) -> NotFiniteError | None:
    """What is wrong with the numbers that this step, from 0, is to learn from: the first turn's that is not finite."""
    for what, place, values in _numbers(samples):
        if not isfinite(sum(values)):  # a sum is finite if all its parts are
            return NotFiniteError(what, f"step {step + 1}", place)
    return None


def _numbers(samples: Sequence[Sample]) -> Iterator[tuple[str, str, Iterable[float]]]:
    """All that is learned from. What turns are given comes first, since one bad reward is in all advantages."""
    for one in samples:
        yield "the environment's reward", one.place, (one.turn.reward,)
        yield "the teacher's penalty", one.place, (one.turn.penalty,)
        yield "the reward model's score", one.place, (one.model_score,)
        yield "a log-probability of the sampler", one.place, one.turn.logprobs
        yield "a value", one.place, one.turn.values
        yield "a log-probability", one.place, one.own
        yield "a log-probability of the reference", one.place, one.reference
    for one in samples:
        yield "an advantage", one.place, one.advantages
        yield "a return", one.place, one.returns
        yield "an importance weight", one.place, one.importance or ()
