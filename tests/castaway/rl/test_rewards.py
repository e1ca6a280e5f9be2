"""Which text is paid for what: token rewards, and samples with their advantages."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

import pytest

from castaway.config.ppo import PpoParams
from castaway.rl.rewards import (
    Readings,
    Sample,
    make_samples,
    normalise,
    token_rewards,
    truncated_importance,
    turn_reward,
)
from castaway.rollout.trajectory import Trajectory, Turn
from tests.castaway.rl.small import ppo_params, turn_of
from tests.castaway.rl.test_losses import tensor

PLAIN = {
    "reward_scale": 1.0, "penalty_weight": 1.0, "reward_model_weight": 0.0, "importance_cap": None, "gamma_turn": 1.0,
    "lambda_turn": 1.0, "gamma_token": 1.0, "lambda_token": 1.0,
}  # fmt: skip


def plain(**changes: Any) -> PpoParams:
    return ppo_params(**{**PLAIN, **changes})


def turn(reward: float, penalty: float = 0.0, valid: bool = True, tokens: int = 1) -> Turn:
    own = {"prompt_tokens": [1], "reply_tokens": [2] * tokens, "logprobs": [-1.0] * tokens, "values": [0.0] * tokens}
    return turn_of(**own, action="LEFT", valid=valid, penalty=penalty, reward=reward)


def samples(trajectories: Sequence[Trajectory], **changes: Any) -> list[Sample]:
    """Of a policy that is still the reference."""
    logprobs = [turn.logprobs for trajectory in trajectories for turn in trajectory.turns]
    return make_samples(trajectories, Readings(logprobs, logprobs, [0.0] * len(logprobs)), plain(**changes), 0.0)


def firsts(trajectories: Sequence[Trajectory], **changes: Any) -> list[float]:
    """The advantage of the first token of each turn."""
    return [sample.advantages[0] for sample in samples(trajectories, **changes)]


def walk(*turns: Turn, role: str = "walker", task_id: int = 0) -> Trajectory:
    return Trajectory(task_id, role, role, list(turns))


def test_a_turns_reward_is_weighed() -> None:
    params = ppo_params(reward_scale=0.1, penalty_weight=2.0, reward_model_weight=0.5)
    # 0.1 * (3 + 2 * -1) + 0.5 * 4
    assert turn_reward(turn(3.0, -1.0), 4.0, params) == pytest.approx(2.1)


def test_what_is_paid_in_later_rounds_is_discounted() -> None:
    once = replace(turn(3.0), later=[1.0, 1.0])
    assert turn_reward(once, 0.0, plain(gamma_turn=0.5)) == pytest.approx(1.0 + 0.5 + 0.25)


def test_a_reply_that_was_cut_off_is_not_paid_in_full() -> None:
    params = plain(truncated_reward_factor=0.25)
    assert turn_reward(replace(turn(4.0), cut_off=True), 0.0, params) == 1.0
    assert turn_reward(replace(turn(0.0, -2.0), cut_off=True), 0.0, params) == -2.0, "a loss counts whole"


def test_token_rewards_hold_the_kl_penalty_and_the_reward_at_the_end() -> None:
    # -0.1 * (-1 + 3) = -0.2;  -0.1 * (-1 + 1) + 5
    assert token_rewards([-1.0, -1.0], [-3.0, -1.0], 5.0, 0.1, "k1") == pytest.approx([-0.2, 5.0])
    # d = -2: exp(-2) + 1
    assert token_rewards([-1.0, -1.0], [-3.0, -1.0], 5.0, 0.1, "k3") == pytest.approx([-0.1 * (exp(-2) + 1), 5.0])


@pytest.mark.parametrize("ratio_to_sampler", [False, True])
def test_the_penalty_is_for_the_trainers_distance_whatever_the_ratio_is_against(ratio_to_sampler: bool) -> None:
    # The sampler had log p = -1 and the trainer has -2: the return is 5 - 0.1 * (-2 + 3).
    readings = Readings([[-3.0]], [[-2.0]], [0.0])
    (late,) = make_samples([walk(turn(5.0))], readings, plain(), 0.1, ratio_to_sampler=ratio_to_sampler)
    assert (late.returns[0], late.own) == (pytest.approx(4.9), [-2.0])
    assert late.old_logprobs == ([-1.0] if ratio_to_sampler else [-2.0])


def test_leave_one_out_is_scaled_and_not_shifted() -> None:
    pair = [walk(turn(reward), task_id=3) for reward in (5.0, 1.0)]
    found = samples([*pair, walk(turn(2.0), task_id=4)], estimator="rloo", group_size=2)
    # 4, -4, and 2 without others: mean 2/3, deviation sqrt(12 - 4/9)
    deviation = (12 - 4 / 9) ** 0.5
    assert [one.advantages[0] for one in found] == pytest.approx([4 / deviation, -4 / deviation, 2 / deviation])
    assert [one.returns[0] for one in found] == [5.0, 1.0, 2.0]


@pytest.mark.parametrize("estimator", ["gae", "rloo", "grpo"])
@pytest.mark.parametrize("better", [1.5, 7.0])
def test_scaled_by_itself_a_pair_does_not_know_by_how_much_the_one_is_better(estimator: str, better: float) -> None:
    """Whatever the estimator: only a larger batch has a scale that one turn hardly changes."""
    pair = [walk(turn(reward)) for reward in (better, 1.0)]
    assert firsts(pair, estimator=estimator, group_size=2) == pytest.approx([1.0, -1.0])


def test_a_replaced_turn_earns_its_penalty_and_nothing_else() -> None:
    for penalty, scale in ((-1.0, 50.5), (-2.0, 50.0)):
        # credited: 2 + (100 + penalty) + 2 and 2; whitened these two are 1 and -1, and the deviation is half of 99 + 2
        found = samples([walk(turn(2.0), turn(100.0, penalty, valid=False, tokens=2), turn(2.0))])
        assert found[0].advantages + found[2].advantages == pytest.approx([1.0, -1.0])
        assert found[1].advantages == pytest.approx([penalty / scale] * 2)


def test_the_critic_still_learns_what_a_replaced_turn_was_worth() -> None:
    found = samples([walk(turn(5.0, -1.0, valid=False), turn(2.0, tokens=2))])
    assert [one.returns for one in found] == [[6.0], [2.0, 2.0]]


def test_each_role_is_measured_by_its_own_scale() -> None:
    both = [walk(turn(20.0), turn(100.0), role="crew"), walk(turn(-2.0), turn(0.0), role="traitor")]
    # Advantages 120, 100, -2, 0. Over the batch all that the traitor does is bad; within its role one half is good.
    assert [value > 0 for value in firsts(both, normalise_by="batch")] == [True, True, False, False]
    assert firsts(both, normalise_by="role") == pytest.approx([1.0, -1.0, -1.0, 1.0])


def test_importance_is_capped() -> None:
    weights = truncated_importance([log(3), log(0.5)], [0.0, 0.0], cap=2.0)
    assert weights == pytest.approx([2.0, 0.5])


def test_normalised_values_have_mean_zero_and_deviation_one_and_constant_ones_move_nothing() -> None:
    # of 1, 3: mean 2, deviation 1
    for raw, mask, expected in (((1, 3, 50), (1, 1, 0), ([-1, 1, 0], 2, 1)), ((4, 4), (1, 1), ([0, 0], 4, 1))):
        values, mean, deviation = normalise(tensor(*raw), tensor(*mask))
        assert (values.tolist(), mean.item(), deviation.item()) == expected
