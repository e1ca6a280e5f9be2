"""Advantages across turns and within turns.

Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, eq. 16) in its dual-discount form (Verlog,
2025): time passes at two speeds. Within a turn, from token t to token t+1,

    delta_t = r_t + gamma_token * V_{t+1} - V_t
    A_t     = delta_t + gamma_token * lambda_token * A_{t+1}

and from the last token of a turn to the first token of the agent's next one,

    delta_t = r_t + gamma_turn * V'_1 - V_t
    A_t     = delta_t + gamma_turn * lambda_turn * A'_1

where V'_1 and A'_1 belong to the first token of the next turn. After the last turn A' is 0, and V' is 0 if the episode
has ended there; if it merely was cut off, V' is the value of the turn that followed. Returns are A_t + V_t.

A further estimator is a function here with the name that `ppo.advantages` in params.yaml is to have:

    @estimator("my_estimator")
    def my_estimator(rewards, values, discounts, bootstrap=0.0): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from castaway.errors import CastawayError


@dataclass(frozen=True, slots=True)
class Discounts:
    """The two speeds of time."""

    gamma_turn: float
    lambda_turn: float
    gamma_token: float
    lambda_token: float


Tokens = Sequence[Sequence[float]]
"""A number for each token of each turn of a trajectory."""
Estimator = Callable[[Tokens, Tokens, Discounts, float], list[list[float]]]
"""From rewards, values, discounts and the value of what follows to advantages; see `dual_discount_gae`."""

_ESTIMATORS: dict[str, Estimator] = {}


def estimator(name: str) -> Callable[[Estimator], Estimator]:
    """Let `ppo.advantages` name the decorated function."""

    def register(function: Estimator) -> Estimator:
        _ESTIMATORS[name] = function
        return function

    return register


def estimator_named(name: str) -> Estimator:
    """The estimator that `ppo.advantages` names.

    Raises:
        CastawayError: there is none of that name.
    """
    if name not in _ESTIMATORS:
        raise CastawayError(f"ppo.advantages is {name!r}, expected one of {', '.join(sorted(_ESTIMATORS))}")
    return _ESTIMATORS[name]


@estimator("dual_discount_gae")
def dual_discount_gae(
    rewards: Tokens,
    values: Tokens,
    discounts: Discounts,
    bootstrap: float = 0.0,
) -> list[list[float]]:
    """Advantages of one trajectory.

    Args:
        rewards: for each turn, the reward of each of its tokens; a turn's own reward stands on its last token.
        values: for each turn, the value before each of its tokens.
        discounts: gamma and lambda of both speeds.
        bootstrap: the value of what follows the last turn; 0 where the episode has ended.

    Returns:
        For each turn, the advantage of each of its tokens.

    Raises:
        ValueError: a turn without tokens, or rewards and values of different shape.
    """
    advantages: list[list[float]] = []
    next_value, next_advantage = bootstrap, 0.0
    for turn_rewards, turn_values in zip(reversed(rewards), reversed(values), strict=True):
        if not turn_rewards or len(turn_rewards) != len(turn_values):
            raise ValueError("every turn needs tokens, and as many rewards as values")
        gamma, decay = discounts.gamma_turn, discounts.gamma_turn * discounts.lambda_turn
        turn: list[float] = []
        for reward, value in zip(reversed(turn_rewards), reversed(turn_values), strict=True):
            next_advantage = reward + gamma * next_value - value + decay * next_advantage
            next_value = value
            turn.append(next_advantage)
            gamma, decay = discounts.gamma_token, discounts.gamma_token * discounts.lambda_token
        advantages.append(turn[::-1])
    return advantages[::-1]
