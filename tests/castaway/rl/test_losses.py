"""The losses of PPO against numbers worked out by hand."""

from math import exp, log

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as some

from castaway.rl.losses import (
    KlCoefficient,
    KlEstimator,
    clipped_policy_loss,
    clipped_value_loss,
    kl_estimate,
    masked_mean,
    sequence_log_ratio,
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


def test_importance_weighs_the_loss() -> None:
    # ratios 1: losses -1 and -3, weighed 2 and 0.5
    loss, _ = clipped_policy_loss(tensor(0, 0), tensor(1, 3), tensor(1, 1), EVEN, tensor(2, 0.5))
    assert loss.item() == pytest.approx((-2.0 - 1.5) / 2)


def test_the_estimates() -> None:
    # d = log q - log p = log 2, 0, -1:  k1 = -d;  k2 = d^2 / 2;  k3 = exp(d) - 1 - d
    p, q = tensor(0, 0, 0), tensor(log(2), 0, -1)
    assert kl_estimate(p, q, "k1").tolist() == pytest.approx([-log(2), 0, 1])
    assert kl_estimate(p, q, "k2").tolist() == pytest.approx([log(2) ** 2 / 2, 0, 0.5])
    assert kl_estimate(p, q, "k3").tolist() == pytest.approx([1 - log(2), 0, exp(-1)])


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_estimates_are_unbiased(estimator: KlEstimator) -> None:
    p, q = tensor(0.7, 0.2, 0.1), tensor(0.3, 0.3, 0.4)
    exact = sum(a * log(a / b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    assert (p * kl_estimate(p.log(), q.log(), estimator)).sum().item() == pytest.approx(exact)


def test_no_single_token_decides_k3() -> None:
    """Of 30,000 tokens at a KL of 0.1 each, one at d = 11 made it 2.1; its gradient was 60,000 times another's."""
    d = torch.full((30_000,), 0.44, dtype=torch.float64)
    d[0] = 11.0
    d.requires_grad_()
    values = kl_estimate(torch.zeros_like(d), d, "k3")
    assert values.mean().item() == pytest.approx(0.1128 + 85 / 30_000, rel=1e-2) and (exp(11) - 12) / 30_000 > 1.9
    (gradient,) = torch.autograd.grad(values.sum(), d)
    assert gradient[0].item() == pytest.approx(9.0)
    around = tensor(log(10) - 1e-6, log(10) + 1e-6).requires_grad_()
    bent = kl_estimate(torch.zeros_like(around), around, "k3")
    (slopes,) = torch.autograd.grad(bent.sum(), around)
    assert torch.allclose(bent, tensor(9 - log(10), 9 - log(10)), atol=1e-4) and torch.allclose(slopes, tensor(9, 9))


def test_as_a_loss_k2_pulls_by_kl_p_q_and_k3_by_kl_q_p_and_k1_nowhere() -> None:
    logits, q = tensor(0.5, 0.1, -0.4).requires_grad_(), tensor(0.2, 0.3, 0.5)
    p = torch.log_softmax(logits, -1)
    forward, backward = (p.exp() * (p - q.log())).sum(), (q * (q.log() - p)).sum()
    for estimator, divergence in (("k1", 0 * forward), ("k2", forward), ("k3", backward)):
        # The mean over tokens drawn from p, whose probabilities are not differentiated: as in a loss over samples.
        loss = (p.detach().exp() * kl_estimate(p, q.log(), estimator)).sum()  # type: ignore[arg-type]
        (actual,), (wanted,) = (torch.autograd.grad(one, logits, retain_graph=True) for one in (loss, divergence))
        assert torch.allclose(actual, wanted)


def test_the_coefficient_is_steered_toward_its_target() -> None:
    kl = KlCoefficient(1.0, target=0.1)
    kl.adapt(0.11)  # error 0.1
    assert kl.value == pytest.approx(1.01)
    kl.adapt(5.0)  # error clipped to 0.2
    assert kl.value == pytest.approx(1.01 * 1.02)
    kl.adapt(0.0)  # clipped to -0.2
    assert kl.value == pytest.approx(1.01 * 1.02 * 0.98)
    fixed = KlCoefficient(0.5, target=None)
    fixed.adapt(99.0)
    assert fixed.value == 0.5
