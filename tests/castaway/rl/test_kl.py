"""The KL estimators and the adaptive coefficient against numbers worked out by hand."""

from math import exp, log

import pytest
import torch

from castaway.rl.kl import KlCoefficient, KlEstimator, kl_estimate


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


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


def test_as_a_loss_k3_pulls_toward_the_reference_and_k1_nowhere() -> None:
    logits, q = tensor(0.5, 0.1, -0.4).requires_grad_(), tensor(0.2, 0.3, 0.5)
    for estimator, still in (("k1", True), ("k3", False)):
        p = torch.log_softmax(logits, -1)
        # The mean over tokens drawn from p, whose probabilities are not differentiated: as in a loss over samples.
        loss = (p.detach().exp() * kl_estimate(p, q.log(), estimator)).sum()  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(loss, logits)
        assert (gradient.abs().max().item() < 1e-12) == still


def test_as_a_loss_k2_has_the_gradient_of_the_divergence() -> None:
    logits, q = tensor(0.5, 0.1, -0.4).requires_grad_(), tensor(0.2, 0.3, 0.5)
    p = torch.log_softmax(logits, -1)
    loss = (p.detach().exp() * kl_estimate(p, q.log(), "k2")).sum()
    exact = (p.exp() * (p - q.log())).sum()
    (found,), (wanted,) = (torch.autograd.grad(each, logits, retain_graph=True) for each in (loss, exact))
    assert torch.allclose(found, wanted)


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
