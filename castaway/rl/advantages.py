"""Advantages across turns and within turns, by the estimators of `ESTIMATORS` (`ppo.advantage.estimator`).

A new one is a function here and its line in that table; nothing else in the library names an estimator.

`gae`: generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, eq. 16) in its dual-discount form
(Verlog, 2025): time passes at two speeds. Within a turn, from token t to token t+1,

    delta_t = r_t + gamma_token * V_{t+1} - V_t
    A_t     = delta_t + gamma_token * lambda_token * A_{t+1}

and from the last token of a turn to the first token of the agent's next one,

    delta_t = r_t + gamma_turn^n * V'_1 - V_t
    A_t     = delta_t + gamma_turn^n * lambda_turn * A'_1

where V'_1 and A'_1 belong to the first token of the next turn, n rounds later: 1, or more if the agent had no turn in
some. After the last turn A' is 0, and V' is 0 if the episode
has ended there; if it merely was cut off, V' is the value of the turn that followed. Returns are A_t + V_t.

The others need no critic (`Estimator.compare`). They compare the discounted return G_t = r_t + gamma * G_{t+1}, at the
same two speeds, with those of a group of trajectories at the same turn, so process rewards of single turns count too:

- `reinforce`: the group are all trajectories of the agent's role. A = G - mean of those from other episodes (Williams
  1992; a baseline for each role, as in SPIRAL, Liu et al. 2025, arXiv:2506.24119). What the agent's companions in its
  own episode are paid depends on its words, so they are left out, and with them those of the same episode played again;
- `rloo`: the group are those of the same agent in the same episode, which is played `ppo.group_size` times.
  A = G - mean of the others (Ahmadian et al. 2024, arXiv:2402.14740);
- `grpo`: the same group. A = (G - mean of all) / deviation of all (Shao et al. 2024, arXiv:2402.03300, section 4.1.3).

**Bias.** The baselines of `reinforce` and `rloo` do not depend on the trajectory's own words, so without discounts the
mean of A * grad log p, summed over tokens, is the gradient of the expected return; so it is for `gae` with both lambdas
1, with any values. With a gamma below 1 each turn is weighed as if the episode began with it: by 1 / gamma_turn^k more,
k rounds after the beginning, than in the gradient of the discounted return (Nota and Thomas 2020, arXiv:1906.07073).
`grpo` divides by what the same draws came to, so its mean is not the gradient of the return: with groups of two and
single turns, A is 1 for the better one and -1 for the other, by how much it may be better. Tests work all of this out.
In an update `gae` is whitened and `reinforce` and `rloo` are scaled by what the same batch came to, and the sum over
tokens is divided by their number, which depends on the lengths that were drawn; these biases fall with the number of
turns in a batch and in a minibatch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Literal

Tokens = Sequence[Sequence[float]]
"""A number for each token of each turn of a trajectory."""


@dataclass(frozen=True, slots=True)
class Discounts:
    """The two speeds of time."""

    gamma_turn: float
    lambda_turn: float
    gamma_token: float
    lambda_token: float


def gae(
    rewards: Tokens,
    values: Tokens,
    discounts: Discounts,
    rounds: Sequence[int] | None = None,
    bootstrap: float = 0.0,
) -> list[list[float]]:
    """Advantages of one trajectory by dual-discount GAE.

    Args:
        rewards: for each turn, the reward of each of its tokens; a turn's own reward stands on its last token.
        values: for each turn, the value before each of its tokens.
        discounts: gamma and lambda of both speeds.
        rounds: for each turn, how many rounds later the next one follows; None: always one.
        bootstrap: the value of what follows the last turn; 0 where the episode has ended.

    Returns:
        For each turn, the advantage of each of its tokens.

    Raises:
        ValueError: a turn without tokens, or rewards and values of different shape.
    """
    advantages: list[list[float]] = []
    next_value, next_advantage = bootstrap, 0.0
    steps = rounds or [1] * len(rewards)
    for turn_rewards, turn_values, passed in zip(reversed(rewards), reversed(values), reversed(steps), strict=True):
        if not turn_rewards or len(turn_rewards) != len(turn_values):
            raise ValueError("every turn needs tokens, and as many rewards as values")
        gamma = discounts.gamma_turn**passed
        decay = gamma * discounts.lambda_turn
        turn: list[float] = []
        for reward, value in zip(reversed(turn_rewards), reversed(turn_values), strict=True):
            next_advantage = reward + gamma * next_value - value + decay * next_advantage
            next_value = value
            turn.append(next_advantage)
            gamma, decay = discounts.gamma_token, discounts.gamma_token * discounts.lambda_token
        advantages.append(turn[::-1])
    return advantages[::-1]


def returns(rewards: Tokens, discounts: Discounts, rounds: Sequence[int] | None = None) -> list[list[float]]:
    """The discounted return from each token of one trajectory on: G_t = r_t + gamma * G_{t+1}; `rounds` as in `gae`."""
    whole = Discounts(discounts.gamma_turn, 1.0, discounts.gamma_token, 1.0)
    return gae(rewards, [[0.0] * len(turn) for turn in rewards], whole, rounds)


@dataclass(frozen=True, slots=True)
class Member:
    """A trajectory as the others of its group see it."""

    group: Hashable
    task_id: int
    """Of its episode."""
    starts: Sequence[float]
    """The return from the first token of each turn on."""
    role: str = ""


def group_advantages(
    own: Sequence[tuple[Member, list[list[float]]]], everybody: Sequence[Member], estimator: Estimator
) -> list[list[list[float]]]:
    """Advantages of trajectories by their groups.

    A trajectory is compared with those of its group that have a turn of the same number, its own among them.

    Args:
        own: the trajectories of this process, each with the returns of its tokens, turn by turn.
        everybody: all trajectories of the batch, with those of other processes, `own` among them.
        estimator: one without a critic.
    """
    assert estimator.compare is not None
    groups: dict[tuple[Hashable, int], list[float]] = {}
    episodes: dict[tuple[Hashable, int, int], list[float]] = {}
    for member in everybody:
        for number, start in enumerate(member.starts):
            groups.setdefault((member.group, number), []).append(start)
            episodes.setdefault((member.group, member.task_id, number), []).append(start)
    advantages = []
    for one, turns in own:
        compared = []
        for number, turn in enumerate(turns):
            together = episodes[one.group, one.task_id, number] if estimator.group == "role" else turn[:1]
            compared.append(estimator.compare(turn, groups[one.group, number], together))
        advantages.append(compared)
    return advantages


def leave_out(turn: list[float], group: Sequence[float], together: Sequence[float]) -> list[float]:
    """The returns of a turn's tokens, minus the mean of the group without `together`.

    Args:
        turn: the returns.
        group: the returns from the same turn on of the whole group, those of `together` among them.
        together: what is no baseline: its own return, and those that depend on its words.
    """
    others = len(group) - len(together)
    baseline = (sum(group) - sum(together)) / others if others else 0.0
    return [value - baseline for value in turn]


def standardise(turn: list[float], group: Sequence[float], together: Sequence[float]) -> list[float]:
    """The returns of a turn's tokens in deviations of the group from its mean; arguments as of `leave_out`."""
    mean = fmean(group)
    deviation = sqrt(fmean([(start - mean) ** 2 for start in group]))
    return [(value - mean) / deviation if deviation > 1e-6 else 0.0 for value in turn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """How advantages are estimated, and what the rest of PPO has to know of it."""

    compare: Callable[[list[float], Sequence[float], Sequence[float]], list[float]] | None = None
    """Compares the returns of a turn with those of its group, as `leave_out` does; None: `gae`, with the critic."""
    group: Literal["episode", "role"] = "episode"
    """The group: the same agent in the same episode, which is played `group_size` times; or all agents of its role."""
    normalise: Literal["whiten", "scale", "none"] = "scale"
    """What is done with the advantages of a batch or role: a shift to mean 0 would bias those with a baseline of their
    own."""


ESTIMATORS = {
    "gae": Estimator(normalise="whiten"),
    "rloo": Estimator(compare=leave_out),
    "grpo": Estimator(compare=standardise, normalise="none"),
    "reinforce": Estimator(compare=leave_out, group="role"),
}
"""The estimators by their names in params.yaml."""
