"""Token rewards and advantages of the turns of a rollout, ready for the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from castaway.config.ppo import PpoParams
from castaway.rl.advantages import Discounts, Member, gae, group_advantages, returns
from castaway.rl.kl import KlEstimator, kl_estimate
from castaway.rl.losses import normalise, truncated_importance
from castaway.rl.ranks import Ranks
from castaway.rl.trajectory import Trajectory, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One turn as PPO learns from it; all lists have one number for each token of the reply."""

    turn: Turn
    reference: list[float]
    """Log-probabilities in nats under the reference policy."""
    own: list[float]
    """The same under the trainer's policy before the update: what the distance from the reference is measured by."""
    advantages: list[float]
    """Normalised; see `make_samples`."""
    returns: list[float]
    """What the value function is to predict: advantages before they were normalised, plus values."""
    old_logprobs: list[float]
    """What the update's ratio is against: `own` or, if the tokens were drawn by a policy of one update before, its
    log-probabilities."""
    importance: list[float] | None
    """Weights of the tokens, if another engine drew them (`castaway.rl.losses.truncated_importance`)."""


def turn_reward(turn: Turn, model_score: float, params: PpoParams) -> float:
    """The reward of one turn, in the units that the value function predicts.

    reward_scale * (environment + penalty_weight * penalty) + reward_model_weight * reward model

    What the environment paid in later rounds, in which the agent had no turn, is discounted by gamma_turn for each.

    A reply that was cut off gets `cut_off_pay` of that if it is a gain, and all of it if it is a loss: the part that is
    missing might have been anything, and paying for it in full would teach the policy not to stop.
    """
    early = sum((1.0 - params.gamma_turn**rounds) * amount for rounds, amount in enumerate(turn.later, start=1))
    paid = params.reward_scale * (turn.reward - early + params.penalty_weight * turn.penalty)
    paid += params.reward_model_weight * model_score
    return paid * params.cut_off_pay if turn.cut_off and paid > 0 else paid


def token_rewards(
    logprobs: Sequence[float],
    reference: Sequence[float],
    reward: float,
    kl_coefficient: float,
    estimator: KlEstimator,
) -> list[float]:
    """The reward of each token: minus kl_coefficient * KL(p || p_ref), and on the last token the turn's reward as well.

    Args:
        logprobs: (reply tokens) log-probabilities in nats under the trainer's policy p before the update.
        reference: (reply tokens) log-probabilities in nats under the reference policy p_ref.
        reward: the turn's.
        kl_coefficient: weight of the penalty; 0 if it is not in the reward.
        estimator: of the KL at one token, see `castaway.rl.kl`.
    """
    estimate = kl_estimate(
        torch.tensor(logprobs, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64), estimator
    )
    rewards: list[float] = (-kl_coefficient * estimate).tolist()
    rewards[-1] += reward
    return rewards


def make_samples(
    trajectories: Sequence[Trajectory],
    references: Sequence[Sequence[list[float]]],
    model_scores: Sequence[Sequence[float]],
    params: PpoParams,
    kl_coefficient: float,
    own: Sequence[Sequence[list[float]]] | None = None,
    ranks: Ranks | None = None,
    ratio_to_sampler: bool = False,
) -> list[Sample]:
    """Advantages and returns for all turns of a batch, advantages normalised over the batch or within each role.

    Roles that are paid on different scales need the latter: beside a well-paid crew everything that a traitor says is
    below the average, so that all of its words are driven out alike, and gibberish is what remains.

    A turn whose action was put in its place by the teacher is part of the trajectory, since the world went on from it,
    but its own words earn only the process penalty: what the teacher's action brought is not credited to them.

    Args:
        trajectories: of all agents and episodes.
        references: for each trajectory and turn, log-probabilities of the reply's tokens under the reference policy.
        model_scores: for each trajectory and turn, the reward model's score in standard deviations.
        params: weights and discounts.
        kl_coefficient: of the penalty inside the reward; 0 if it is not there.
        own: as `references`, but under the trainer's policy; without it, the log-probabilities of the sampler count.
        ranks: the processes whose turns are one batch.
        ratio_to_sampler: whether the update's ratio is against the log-probabilities of the sampler, not against `own`.

    Returns:
        One sample for each turn, in the order of the trajectories.

    Raises:
        ValueError: a turn without tokens, or lists of different lengths.
    """
    ranks = ranks or Ranks()
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    roles = [trajectory.role for trajectory in trajectories for _ in trajectory.turns]
    flat_references = [reference for rows in references for reference in rows]
    trainers = [turn.logprobs for turn in turns] if own is None else [row for rows in own for row in rows]
    raw, targets = _advantages(trajectories, trainers, references, model_scores, params, kl_coefficient, ranks)
    groups = roles if params.normalise_by == "role" else ["all"] * len(turns)
    advantages = _normalise_groups(turns, raw, groups, params, ranks)
    weights = [_importance(row, turn, params.importance_cap) for row, turn in zip(trainers, turns, strict=True)]
    columns = (turns, flat_references, trainers, advantages, targets, weights)
    return [
        Sample(
            turn=turn,
            reference=reference,
            own=trainer,
            advantages=turn_advantages,
            returns=turn_returns,
            old_logprobs=turn.logprobs if ratio_to_sampler else trainer,
            importance=importance,
        )
        for turn, reference, trainer, turn_advantages, turn_returns, importance in zip(*columns, strict=True)
    ]


def _advantages(
    trajectories: Sequence[Trajectory],
    trainers: Sequence[list[float]],
    references: Sequence[Sequence[list[float]]],
    model_scores: Sequence[Sequence[float]],
    params: PpoParams,
    kl_coefficient: float,
    ranks: Ranks,
) -> tuple[list[list[float]], list[list[float]]]:
    """For each turn, the advantages of its tokens, not normalised, and the returns that the critic is to predict."""
    discounts = Discounts(
        gamma_turn=params.gamma_turn,
        lambda_turn=params.lambda_turn,
        gamma_token=params.gamma_token,
        lambda_token=params.lambda_token,
    )
    own = iter(trainers)
    rounds = [[1 + len(turn.later) for turn in trajectory.turns] for trajectory in trajectories]
    rewards = [
        [
            token_rewards(next(own), ref, turn_reward(turn, score, params), kl_coefficient, params.kl_estimator)
            for turn, ref, score in zip(trajectory.turns, reference, scores, strict=True)
        ]
        for trajectory, reference, scores in zip(trajectories, references, model_scores, strict=True)
    ]
    if params.estimator != "gae":
        found = [returns(paid, discounts, rows) for paid, rows in zip(rewards, rounds, strict=True)]
        mine = [
            Member(_group(trajectory, params), trajectory.task_id, [turn[0] for turn in turns])
            for trajectory, turns in zip(trajectories, found, strict=True)
        ]
        everybody = [member for part in ranks.gather(mine) for member in part]
        compared = group_advantages(list(zip(mine, found, strict=True)), everybody, params.estimator)
        return [turn for turns in compared for turn in turns], [turn for turns in found for turn in turns]
    advantages: list[list[float]] = []
    targets: list[list[float]] = []
    for trajectory, paid, passed in zip(trajectories, rewards, rounds, strict=True):
        values = [turn.values for turn in trajectory.turns]
        estimated = gae(paid, values, discounts, passed, trajectory.bootstrap)
        advantages += estimated
        targets += [[a + v for a, v in zip(*pair, strict=True)] for pair in zip(estimated, values, strict=True)]
    return advantages, targets


def _group(trajectory: Trajectory, params: PpoParams) -> tuple[str | int, ...]:
    """The group that a trajectory is compared with: its role or, for groups of one episode, that agent in it."""
    if params.estimator == "reinforce":
        return (trajectory.role,)
    return (trajectory.task_id, trajectory.agent, trajectory.role)


def _normalise_groups(
    turns: Sequence[Turn], raw: Sequence[list[float]], groups: Sequence[str], params: PpoParams, ranks: Ranks
) -> list[list[float]]:
    """Whiten the advantages of each group by itself, over all processes."""
    normalised: list[list[float]] = [[]] * len(turns)
    # All processes go through all groups, also those that they have no turns of: each takes part in every sum.
    for group in sorted({name for part in ranks.gather(set(groups)) for name in part}):
        members = [number for number, name in enumerate(groups) if name == group]
        rows = _normalise([turns[number] for number in members], [raw[number] for number in members], params, ranks)
        for number, row in zip(members, rows, strict=True):
            normalised[number] = row
    return normalised


def _importance(own: list[float], turn: Turn, cap: float | None) -> list[float] | None:
    if cap is None:
        return None
    weights: list[float] = truncated_importance(torch.tensor(own), torch.tensor(turn.logprobs), cap).tolist()
    return weights


def _normalise(turns: Sequence[Turn], raw: Sequence[list[float]], params: PpoParams, ranks: Ranks) -> list[list[float]]:
    """Whiten over the credited tokens; replaced turns get their penalty on the same scale, without the shift.

    Of the estimators with groups, which have a baseline of their own, `reinforce` and `rloo` are only scaled: a shift
    by the mean of the batch would bias them. Those of `grpo` are scaled already.
    """
    flat = torch.tensor([value for row in raw for value in row])
    credited = torch.tensor([float(turn.valid) for turn, row in zip(turns, raw, strict=True) for _ in row])
    whitened, mean, deviation = normalise(flat, credited, ranks.sum)
    if params.estimator != "gae":
        scale = torch.ones_like(deviation) if params.estimator == "grpo" else deviation
        whitened = whitened * (deviation / scale) + mean / scale * credited
    rows = [list(row) for row in whitened.split([len(row) for row in raw])]
    weight = params.reward_scale * params.penalty_weight / float(deviation)
    return [
        [float(value) for value in row] if turn.valid else [weight * turn.penalty] * len(row)
        for turn, row in zip(turns, rows, strict=True)
    ]
