"""The estimators with groups, by hand; and the mean gradient of each against brute force, in a game of varying length.

The game: in each of at most two turns the policy stops or goes on, with a chance of its own in each. So it chooses how
long its trajectory is. Every turn pays. All pairs of trajectories are listed with their probabilities, so the mean of
sum(A * grad log p) is exact, and is compared with the gradient of the expected return.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.rl.advantages import Discounts, Estimator, Member, gae, group_advantages, returns

PLAIN = Discounts(1.0, 1.0, 1.0, 1.0)
NUMBERS = st.floats(-3, 3, allow_nan=False)


def compared(estimator: Estimator, *trajectories: list[list[float]], groups: Sequence[str] = "aaaa") -> object:
    pairs = enumerate(zip(groups, trajectories, strict=False))
    return of_members([(Member(group, number, starts(turns)), turns) for number, (group, turns) in pairs], estimator)


def starts(turns: list[list[float]]) -> list[float]:
    """The returns from the beginning of each turn on."""
    return [turn[0] for turn in turns]


def of_members(own: list[tuple[Member, list[list[float]]]], estimator: Estimator) -> list[list[list[float]]]:
    """The advantages of trajectories that are a whole batch."""
    return group_advantages(own, [member for member, _ in own], estimator)


def test_returns_are_discounted_at_two_speeds() -> None:
    # last token: 4;  before it: 1 + 0.5 * 4;  the turn before: 2 + 0.9 * 3
    assert returns([[2.0], [1.0, 4.0]], Discounts(0.9, 0.3, 0.5, 0.3)) == [[pytest.approx(4.7)], [3.0, 4.0]]


def test_leave_one_out_compares_with_the_others_at_the_same_turn() -> None:
    # First turns 6, 2, 1: the means of the others are 1.5, 3.5 and 4. Second turns 3 and 1; the third has none.
    found = compared("rloo", [[6.0, 5.0], [3.0]], [[2.0], [1.0]], [[1.0]])
    assert found == [[[4.5, 3.5], [2.0]], [[-1.5], [-2.0]], [[-3.0]]]


def test_a_trajectory_without_others_has_no_baseline() -> None:
    assert compared("rloo", [[6.0]], [[2.0]], groups="ab") == [[[6.0]], [[2.0]]]


def test_grpo_divides_by_the_deviation_of_the_group() -> None:
    assert compared("grpo", [[6.0, 4.0]], [[2.0]]) == [[[1.0, 0.0]], [[-1.0]]]
    assert compared("grpo", [[2.0]], [[2.0]]) == [[[0.0]], [[0.0]]]


def test_who_was_in_the_same_episode_is_no_baseline_of_a_role() -> None:
    own = [(Member("crew", task_id, [paid]), [[paid]]) for task_id, paid in ((1, 6.0), (1, 5.0), (2, 2.0), (3, 1.0))]
    # The others: 2 and 1 for the first two; 6, 5 and 1 for the third.
    assert of_members(own, "reinforce") == [[[4.5]], [[3.5]], [[-2.0]], [[1.0 - 13 / 3]]]


class Played(NamedTuple):
    """A trajectory: the choices in its turns, True for going on."""

    choices: tuple[bool, ...]


ALL = (Played((False,)), Played((True, False)), Played((True, True)))


def logprobs(logits: torch.Tensor, played: Played) -> torch.Tensor:
    """(turns) log-probabilities of the choices."""
    signs = torch.tensor([1.0 if choice else -1.0 for choice in played.choices], dtype=torch.float64)
    return torch.nn.functional.logsigmoid(signs * logits[: len(signs)])


def rewards_of(played: Played, paid: Sequence[float]) -> list[list[float]]:
    """What each turn pays, by its number and the choice; a turn is one token."""
    return [[paid[2 * number + choice]] for number, choice in enumerate(played.choices)]


Advantages = Callable[[Sequence[list[list[float]]]], list[list[list[float]]]]


def mean_gradient(logits: torch.Tensor, paid: Sequence[float], advantages: Advantages) -> torch.Tensor:
    """The exact mean, over two trajectories, of sum(A * grad log p) / 2."""
    total = torch.zeros_like(logits)
    for pair in product(ALL, repeat=2):
        found = advantages([rewards_of(played, paid) for played in pair])
        chance = torch.stack([logprobs(logits, played).sum() for played in pair]).sum().exp().detach()
        for played, turns in zip(pair, found, strict=True):
            weights = torch.tensor([turn[0] for turn in turns], dtype=torch.float64)
            (gradient,) = torch.autograd.grad((weights * logprobs(logits, played)).sum(), logits)
            total += chance * gradient / 2
    return total


def true_gradient(logits: torch.Tensor, paid: Sequence[float]) -> torch.Tensor:
    """The gradient of the expected return."""
    value = sum(
        logprobs(logits, played).sum().exp() * sum(turn[0] for turn in rewards_of(played, paid)) for played in ALL
    )
    (gradient,) = torch.autograd.grad(torch.as_tensor(value), logits)
    return gradient


def by(estimator: Estimator, values: Sequence[float] = (0.0, 0.0), discounts: Discounts = PLAIN) -> Advantages:
    """The estimator as a function of the rewards of two trajectories of one group."""

    def advantages(pair: Sequence[list[list[float]]]) -> list[list[list[float]]]:
        if estimator == "gae":
            return [gae(paid, [[value] for value in values[: len(paid)]], discounts) for paid in pair]
        found = enumerate(returns(paid, discounts) for paid in pair)
        return of_members([(Member("group", number, starts(turns)), turns) for number, turns in found], estimator)

    return advantages


@pytest.mark.parametrize("estimator", ["gae", "rloo", "reinforce"])
@given(logits=st.tuples(NUMBERS, NUMBERS), paid=st.tuples(*[NUMBERS] * 4), values=st.tuples(NUMBERS, NUMBERS))
@settings(deadline=None, max_examples=25)
def test_the_mean_gradient_is_that_of_the_return(
    estimator: Estimator, logits: tuple[float, float], paid: tuple[float, ...], values: tuple[float, float]
) -> None:
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, paid, by(estimator, values))
    assert torch.allclose(found, true_gradient(leaf, paid), atol=1e-9)


@given(logit=NUMBERS, better=st.floats(0.1, 3))
@settings(deadline=None, max_examples=25)
def test_the_mean_gradient_of_grpo_does_not_know_by_how_much(logit: float, better: float) -> None:
    # Stopping pays 0, going on and then stopping or not pays `better`: in effect one choice. With chance p to go on,
    # pairs that differ have the chance 2 p (1 - p), and there A is 1 and -1: the mean is p (1 - p), whatever `better`.
    leaf = torch.tensor([logit, 0.0], dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, (0.0, better, 0.0, 0.0), by("grpo"))
    chance = torch.sigmoid(leaf.detach()[0])
    assert found[0].item() == pytest.approx((chance * (1 - chance)).item())
    assert true_gradient(leaf, (0.0, better, 0.0, 0.0))[0].item() == pytest.approx((better * found[0]).item())


@given(logits=st.tuples(NUMBERS, NUMBERS), paid=st.tuples(*[NUMBERS] * 8))
@settings(deadline=None, max_examples=25)
def test_the_baseline_of_a_role_adds_nothing_to_the_mean_gradient_of_companions(
    logits: tuple[float, float], paid: tuple[float, ...]
) -> None:
    """In two episodes two agents of one role choose at once, and each is paid by what both have chosen."""
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    added = torch.zeros_like(leaf)
    for choices in product((False, True), repeat=4):
        signs = torch.tensor([1.0 if choice else -1.0 for choice in choices], dtype=torch.float64)
        logs = torch.nn.functional.logsigmoid(signs * leaf.repeat(2))
        own = []
        for number in range(4):
            task_id, agent = divmod(number, 2)
            value = paid[4 * agent + 2 * choices[2 * task_id] + choices[2 * task_id + 1]]
            own.append((Member("crew", task_id, [value]), [[value]]))
        pairs = zip(of_members(own, "reinforce"), own, strict=True)
        baselines = torch.tensor([turns[0][0] - member.starts[0] for turns, (member, _) in pairs], dtype=torch.float64)
        (gradient,) = torch.autograd.grad((baselines * logs).sum(), leaf, retain_graph=True)
        added += logs.sum().exp().detach() * gradient
    assert torch.allclose(added, torch.zeros_like(added), atol=1e-9)


@pytest.mark.parametrize("estimator", ["gae", "rloo", "reinforce"])
@given(logits=st.tuples(NUMBERS, NUMBERS), paid=st.tuples(*[NUMBERS] * 4))
@settings(deadline=None, max_examples=25)
def test_with_a_discount_later_turns_weigh_more_than_in_the_gradient_of_the_discounted_return(
    estimator: Estimator, logits: tuple[float, float], paid: tuple[float, ...]
) -> None:
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, paid, by(estimator, discounts=Discounts(0.5, 1.0, 1.0, 1.0)))
    # What the second turn pays counts half; its own gradient is found whole.
    wanted = true_gradient(leaf, (*paid[:2], 0.5 * paid[2], 0.5 * paid[3]))
    assert torch.allclose(found, wanted * torch.tensor([1.0, 2.0]), atol=1e-9)
