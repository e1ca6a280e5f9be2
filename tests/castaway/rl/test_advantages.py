"""Advantages against numbers worked out by hand; and the mean gradient of each estimator against brute force.

The game of the latter: in each of at most two turns the policy stops or goes on, with a chance of its own in each. So
it chooses how long its trajectory is. Every turn pays. All pairs of trajectories are listed with their probabilities,
so the mean of sum(A * grad log p) is exact, and is compared with the gradient of the expected return.
"""

from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.rl.advantages import ESTIMATORS, Discounts, Member, gae, group_advantages, returns

HALF = Discounts(gamma_turn=0.5, lambda_turn=0.5, gamma_token=0.8, lambda_token=0.5)
NUMBERS = st.floats(-10, 10, allow_nan=False)
TURNS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4), min_size=1, max_size=5)


def test_what_was_cut_off_is_bootstrapped() -> None:
    # delta = 3 + 0.5 * 4 - 1 = 4, and no advantage follows
    assert gae([[3.0]], [[1.0]], HALF, bootstrap=4.0) == [[4.0]]
    # the first of two turns cut off before the second, whose value is 2: 1 + 0.5 * 2 - 3
    assert gae([[1.0]], [[3.0]], HALF, bootstrap=2.0) == [[-1.0]]


def test_rounds_without_a_turn_pass_all_the_same() -> None:
    # the second turn follows three rounds later: delta = 1 + 0.5^3 * 2 - 3 = -1.75; A = -1.75 + 0.5^3 * 0.5 * 2
    assert gae([[1.0], [4.0]], [[3.0], [2.0]], HALF, [3, 1]) == [[-1.625], [2.0]]
    # and what was cut off: 3 + 0.5^2 * 4 - 1
    assert gae([[3.0]], [[1.0]], HALF, [2], bootstrap=4.0) == [[3.0]]
    # G = 1 + 0.5^3 * 4
    assert returns([[1.0], [4.0]], HALF, [3, 1]) == [[1.5], [4.0]]


def test_two_turns_of_two_tokens() -> None:
    # turn 2, token 2: 4 - 1 = 3
    # turn 2, token 1: delta = -0.1 + 0.8 * 1 - 2 = -1.3;    A = -1.3 + 0.4 * 3 = -0.1
    # turn 1, token 2: delta = 1 + 0.5 * 2 - 3 = -1;         A = -1 + 0.25 * -0.1 = -1.025
    # turn 1, token 1: delta = -0.2 + 0.8 * 3 - 0.5 = 1.7;   A = 1.7 + 0.4 * -1.025 = 1.29
    advantages = gae([[-0.2, 1.0], [-0.1, 4.0]], [[0.5, 3.0], [2.0, 1.0]], HALF)
    assert advantages == [pytest.approx([1.29, -1.025]), pytest.approx([-0.1, 3.0])]


@given(TURNS)
@settings(max_examples=50)
def test_lambda_one_is_monte_carlo_and_lambda_zero_one_step(turns: list[list[tuple[float, float]]]) -> None:
    rewards, values = [[r for r, _ in turn] for turn in turns], [[v for _, v in turn] for turn in turns]
    whole, one = (gae(rewards, values, Discounts(0.9, decay, 0.7, decay)) for decay in (1.0, 0.0))
    total = following = 0.0
    for turn in range(len(turns) - 1, -1, -1):
        for token in range(len(turns[turn]) - 1, -1, -1):
            gamma = 0.9 if token == len(turns[turn]) - 1 else 0.7
            reward, value = rewards[turn][token], values[turn][token]
            total = reward + gamma * total
            assert whole[turn][token] == pytest.approx(total - value, abs=1e-9)
            assert one[turn][token] == pytest.approx(reward + gamma * following - value, abs=1e-9)
            following = value


def test_turns_without_tokens_or_of_different_shape_are_refused() -> None:
    for rewards, values in (([[]], [[]]), ([[1.0]], [[1.0, 2.0]]), ([[1.0], [2.0]], [[1.0]])):
        with pytest.raises(ValueError):
            gae(rewards, values, HALF)
    assert gae([], [], HALF) == []


PLAIN = Discounts(1.0, 1.0, 1.0, 1.0)
SMALL = st.floats(-3, 3, allow_nan=False)


def compared(estimator: str, *trajectories: list[list[float]], groups: Sequence[str] = "aaaa") -> object:
    pairs = enumerate(zip(groups, trajectories, strict=False))
    return of_members([(Member(group, number, starts(turns)), turns) for number, (group, turns) in pairs], estimator)


def starts(turns: list[list[float]]) -> list[float]:
    """The returns from the beginning of each turn on."""
    return [turn[0] for turn in turns]


def of_members(own: list[tuple[Member, list[list[float]]]], estimator: str) -> list[list[list[float]]]:
    """The advantages of trajectories that are a whole batch."""
    return group_advantages(own, [member for member, _ in own], ESTIMATORS[estimator])


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


Played = tuple[bool, ...]
"""A trajectory: the choices in its turns, True for going on."""
ALL: tuple[Played, ...] = ((False,), (True, False), (True, True))


def logprobs(logits: torch.Tensor, played: Played) -> torch.Tensor:
    """(turns) log-probabilities of the choices."""
    signs = torch.tensor([1.0 if choice else -1.0 for choice in played], dtype=torch.float64)
    return torch.nn.functional.logsigmoid(signs * logits[: len(signs)])


def rewards_of(played: Played, paid: Sequence[float]) -> list[list[float]]:
    """What each turn pays, by its number and the choice; a turn is one token."""
    return [[paid[2 * number + choice]] for number, choice in enumerate(played)]


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
    won = [sum(turn[0] for turn in rewards_of(played, paid)) for played in ALL]
    value = sum(logprobs(logits, played).sum().exp() * one for played, one in zip(ALL, won, strict=True))
    (gradient,) = torch.autograd.grad(torch.as_tensor(value), logits)
    return gradient


def by(estimator: str, values: Sequence[float] = (0.0, 0.0), discounts: Discounts = PLAIN) -> Advantages:
    """The estimator as a function of the rewards of two trajectories of one group."""

    def advantages(pair: Sequence[list[list[float]]]) -> list[list[list[float]]]:
        if estimator == "gae":
            return [gae(paid, [[value] for value in values[: len(paid)]], discounts) for paid in pair]
        found = enumerate(returns(paid, discounts) for paid in pair)
        return of_members([(Member("group", number, starts(turns)), turns) for number, turns in found], estimator)

    return advantages


@pytest.mark.parametrize("estimator", ["gae", "rloo", "reinforce"])
@given(logits=st.tuples(SMALL, SMALL), paid=st.tuples(*[SMALL] * 4), values=st.tuples(SMALL, SMALL))
@settings(max_examples=25)
def test_the_mean_gradient_is_that_of_the_return(
    estimator: str, logits: tuple[float, float], paid: tuple[float, ...], values: tuple[float, float]
) -> None:
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, paid, by(estimator, values))
    assert torch.allclose(found, true_gradient(leaf, paid), atol=1e-9)


@given(logit=SMALL, better=st.floats(0.1, 3))
@settings(max_examples=25)
def test_the_mean_gradient_of_grpo_does_not_know_by_how_much(logit: float, better: float) -> None:
    # Stopping pays 0, going on and then stopping or not pays `better`: in effect one choice. With chance p to go on,
    # pairs that differ have the chance 2 p (1 - p), and there A is 1 and -1: the mean is p (1 - p), whatever `better`.
    leaf = torch.tensor([logit, 0.0], dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, (0.0, better, 0.0, 0.0), by("grpo"))
    chance = torch.sigmoid(leaf.detach()[0])
    assert found[0].item() == pytest.approx((chance * (1 - chance)).item())
    assert true_gradient(leaf, (0.0, better, 0.0, 0.0))[0].item() == pytest.approx((better * found[0]).item())


@given(logits=st.tuples(SMALL, SMALL), paid=st.tuples(*[SMALL] * 8))
@settings(max_examples=25)
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
@given(logits=st.tuples(SMALL, SMALL), paid=st.tuples(*[SMALL] * 4))
@settings(max_examples=25)
def test_with_a_discount_later_turns_weigh_more_than_in_the_gradient_of_the_discounted_return(
    estimator: str, logits: tuple[float, float], paid: tuple[float, ...]
) -> None:
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    found = mean_gradient(leaf, paid, by(estimator, discounts=Discounts(0.5, 1.0, 1.0, 1.0)))
    # What the second turn pays counts half; its own gradient is found whole.
    wanted = true_gradient(leaf, (*paid[:2], 0.5 * paid[2], 0.5 * paid[3]))
    assert torch.allclose(found, wanted * torch.tensor([1.0, 2.0]), atol=1e-9)
