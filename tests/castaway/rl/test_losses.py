"""The losses of PPO against numbers worked out by hand."""

from math import exp, log

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as some

from castaway.rl.losses import (
    clipped_policy_loss,
    clipped_value_loss,
    masked_mean,
    normalise,
    sequence_log_ratio,
    truncated_importance,
)

EVEN = (0.2, 0.2)
"""The same range at both ends, as in PPO's paper."""


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_masked_mean_is_over_what_counts() -> None:
    assert masked_mean(tensor(1, 2, 99), tensor(1, 1, 0)).item() == 1.5
    assert masked_mean(tensor(1, 2), tensor(0, 0)).item() == 0.0


def test_the_policy_loss_clips_what_goes_too_far() -> None:
    # ratios 1.5, 0.5, 1.1, 1.5, and one that is masked; c = 0.2
    # A = 2:  max(-3.0, -2 * 1.2) = -2.4, held back
    # A = -1: max(0.5, 0.8) = 0.8, held back
    # A = 3:  -3.3 within the clip
    # A = -1: max(1.5, 1.2) = 1.5: a worse action may always be undone
    new = tensor(log(1.5), log(0.5), log(1.1), log(1.5), 7.0)
    loss, held_back = clipped_policy_loss(new, tensor(2, -1, 3, -1, 50), tensor(1, 1, 1, 1, 0), EVEN)
    assert loss.item() == pytest.approx((-2.4 + 0.8 - 3.3 + 1.5) / 4)
    assert held_back.item() == 0.5


def test_what_is_held_back_has_no_gradient() -> None:
    new = tensor(log(1.5), 0.0).requires_grad_()
    clipped_policy_loss(new, tensor(2, 2), tensor(1, 1), EVEN)[0].backward()
    assert new.grad is not None and new.grad.tolist() == [0.0, -1.0]


def test_a_higher_end_lets_good_tokens_gain_more() -> None:
    # ratios 1.3, 1.5, 0.5; ends 0.8 and 1.4; A = 1: -1.3 within, -1.4 held back; A = -1: max(0.5, 0.8) = 0.8 held back
    new = tensor(log(1.3), log(1.5), log(0.5))
    loss, held_back = clipped_policy_loss(new, tensor(1, 1, -1), tensor(1, 1, 1), (0.2, 0.4))
    assert loss.item() == pytest.approx((-1.3 - 1.4 + 0.8) / 3)
    assert held_back.item() == pytest.approx(2 / 3)


def test_the_ratio_of_a_reply_is_the_mean_of_its_tokens() -> None:
    # Replies of two and one tokens: (0.4 + 0.0) / 2 = 0.2 and -0.1; the masked token counts for nothing.
    log_ratio = torch.tensor([[0.4, 0.0], [-0.1, 9.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    found = sequence_log_ratio(log_ratio, mask)
    assert found[mask > 0].tolist() == pytest.approx([0.2, 0.2, -0.1])
    # A = 1 and 2 in the first reply: d loss / d log p_t = -A_t * s / 3, each token its own; s = exp(0.2)
    advantages = torch.tensor([[1.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    clipped_policy_loss(found, advantages, mask, (0.3, 0.3))[0].backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.flatten().tolist() == pytest.approx([-exp(0.2) / 3, -2 * exp(0.2) / 3, 0, 0])


@given(ratios=some.lists(some.floats(-1, 1), min_size=1, max_size=6))
def test_a_reply_is_clipped_as_a_whole(ratios: list[float]) -> None:
    mean = sum(ratios) / len(ratios)
    assume(abs(mean - log(1.2)) > 1e-9)
    log_ratio = torch.tensor([ratios], dtype=torch.float64)
    mask = torch.ones_like(log_ratio)
    held_back = clipped_policy_loss(sequence_log_ratio(log_ratio, mask), mask, mask, EVEN)[1].item()
    assert held_back == (1.0 if mean > log(1.2) else 0.0)


def test_the_value_loss_takes_the_worse_prediction() -> None:
    # V = 1, old 0, R = 1, c = 0.2: clipped 0.2, errors 0 and 0.64 -> 0.64
    # V = 0.1, old 0, R = 1: within the clip, 0.81
    # V = -1, old 0, R = 1: errors 4 and 1.44 -> 4
    loss = clipped_value_loss(tensor(1, 0.1, -1, 9), tensor(0, 0, 0, 0), tensor(1, 1, 1, 0), tensor(1, 1, 1, 0), 0.2)
    assert loss.item() == pytest.approx(0.5 * (0.64 + 0.81 + 4) / 3)


def test_importance_weighs_the_loss_and_is_capped() -> None:
    weights = truncated_importance(tensor(log(3), log(0.5)), tensor(0, 0), cap=2.0)
    assert weights.tolist() == pytest.approx([2.0, 0.5])
    # ratios 1: losses -1 and -3, weighed 2 and 0.5
    loss, _ = clipped_policy_loss(tensor(0, 0), tensor(1, 3), tensor(1, 1), EVEN, weights)
    assert loss.item() == pytest.approx((-2.0 - 1.5) / 2)


def test_without_a_range_the_value_loss_is_the_squared_error() -> None:
    loss = clipped_value_loss(tensor(1, -1), tensor(0, 0), tensor(1, 1), tensor(1, 1), None)
    assert loss.item() == pytest.approx(0.5 * (0 + 4) / 2)


def test_normalised_values_have_mean_zero_and_deviation_one() -> None:
    # of 1, 3: mean 2, deviation 1
    values, mean, deviation = normalise(tensor(1, 3, 50), tensor(1, 1, 0))
    assert (values.tolist(), mean.item(), deviation.item()) == ([-1, 1, 0], 2, 1)


def test_constant_values_move_nothing() -> None:
    values, mean, deviation = normalise(tensor(4, 4), tensor(1, 1))
    assert (values.tolist(), mean.item(), deviation.item()) == ([0, 0], 4, 1)
