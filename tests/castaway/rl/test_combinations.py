"""What PPO holds in every combination that the configuration allows, on a tiny student: docs/ppo.md has the table."""

import copy
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from castaway.config.ppo import PpoParams
from castaway.models.tokens import ChatTokenizer
from castaway.rl.advantages import ESTIMATORS
from castaway.rl.ppo import PpoTrainer
from castaway.rl.rewards import Sample
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation
from castaway.tasks.environment import Prompt
from castaway.tasks.verdict import Attempt, TeacherOutage, Verdict
from tests.castaway.rl.small import ppo_params, source_of, stirred, student
from tests.castaway.rl.training import LengthScorer, Numbered, Scripted


@dataclass(frozen=True)
class Cell:
    """One combination."""

    dtype: torch.dtype
    turns: int | None
    ahead: bool
    estimator: str
    besides: str
    """An `outage` of the teacher, replies that are `served`, or neither."""

    def __str__(self) -> str:
        play = "whole" if self.turns is None else "turns"
        names = [str(self.dtype).removeprefix("torch."), play, self.estimator]
        return "-".join(names + ["ahead"] * self.ahead + [self.besides] * bool(self.besides))

    @property
    def params(self) -> PpoParams:
        """The parameters, as a file might have them."""
        grouped = ESTIMATORS[self.estimator].compare is not None and ESTIMATORS[self.estimator].group == "episode"
        return ppo_params(
            estimator=self.estimator, turns_per_step=self.turns, async_rollout=self.ahead, episodes_per_step=4,
            group_size=2 if grouped else 1, max_new_tokens=4, minibatch_turns=8, epochs=1, steps=9, learning_rate=1e-2,
            reward_scale=1.0, penalty_weight=1.0, truncated_reward_factor=1.0,
            **({"sampler": "vllm", "importance_cap": 2.0} if self.besides == "served" else {}),
            corrections={"sft_interval": 2, "sft_minimum": 1, "sft_learning_rate": 1e-3},
        )  # fmt: skip

    @property
    def refusal(self) -> str:
        """What the configuration says against it; nothing if it is allowed."""
        try:
            PpoParams.model_validate(self.params.model_dump())
        except ValidationError as error:
            (fault,) = error.errors()
            return str(fault["msg"]).removeprefix("Value error, ")
        return ""


BESIDES = ("", "outage", "served")
CELLS = [
    Cell(*values) for values in product((torch.float32, torch.bfloat16), (None, 7), (False, True), ESTIMATORS, BESIDES)
]
ALLOWED = [cell for cell in CELLS if not cell.refusal]


class Judge:
    """Finds one reply in two legal, whatever it says, so that there is both from a student that was taught nothing."""

    counts: Mapping[str, int] = {}
    rounds = 10**6
    """How often it still answers."""

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        self.rounds -= 1
        if self.rounds < 0:
            raise TeacherOutage("nobody answers")
        return [self._verdict(len(attempt.text) % 2 == 0, len(attempt.text)) for attempt in attempts]

    def _verdict(self, valid: bool, length: int) -> Verdict:
        return Verdict(valid, "LEFT" if length % 3 else "RIGHT", 0.0 if valid else -1.0, "", "", "rules")


class Elsewhere(Scripted):
    """Another engine, as a server is: it has weights of its own and no critic, and rounds otherwise."""

    def refresh(self) -> None:
        self._trained = getattr(self, "_trained", self._actor)
        self._actor = copy.deepcopy(self._trained)

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        drawn = super().__call__(prompts)
        return [replace(one, values=[], logprobs=[value - 0.1 for value in one.logprobs]) for one in drawn]


@cache
def untaught(dtype: torch.dtype) -> tuple[ActorCritic, ChatTokenizer]:
    actor, tokenizer = student(dtype=dtype)
    return stirred(actor), tokenizer


def trainer(cell: Cell, seed: int = 3, **changes: Any) -> PpoTrainer:
    actor, tokenizer = copy.deepcopy(untaught(cell.dtype))
    source, scorer = source_of(seed, ("traitor", "crew")), LengthScorer()
    params = cell.params.model_copy(update=changes)
    sampler = Elsewhere(actor, tokenizer) if cell.besides == "served" else None
    return PpoTrainer(actor, tokenizer, lambda: Numbered(5), Judge(), scorer, params, seed, source, sampler)


def after_a_stop(cell: Cell, unbroken: PpoTrainer) -> PpoTrainer:
    """Another trainer that goes on from the state after a step, in an outage from that of one that failed to go on."""
    ppo = unbroken
    if cell.besides == "outage":
        ppo = trainer(cell)
        ppo.step()
    state = ppo.state()
    if cell.besides == "outage":
        ppo.rollouts.teacher.rounds = 1  # type: ignore[attr-defined]
        with pytest.raises(TeacherOutage, match="nobody answers"):
            ppo.step()
    disk = io.BytesIO()
    torch.save(state, disk)
    disk.seek(0)
    resumed = trainer(cell, seed=99)
    resumed.load_state(torch.load(disk, weights_only=False))
    return resumed


def flat(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.tensor([value for row in rows for value in row])


def weight_at_the_start(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """For each token w * ratio before the first minibatch, and what it ought to be: p of now to p when drawn."""
    own = flat([one.own for one in samples])
    ratio = torch.exp(own - flat([one.old_logprobs for one in samples]))
    weights = flat([one.importance or [1.0] * len(one.own) for one in samples])
    return weights * ratio, torch.exp(own - flat([one.turn.logprobs for one in samples]))


@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_in_every_combination_a_stop_changes_nothing_and_the_ratio_is_to_what_was_drawn(cell: Cell) -> None:
    unbroken = trainer(cell)
    seats: list[int] = []
    draw = unbroken.rollouts.source.draw

    def noted(times: int = 1) -> tuple[int, str]:
        task = draw(times)
        seats.append(times if task[1] == "crew" else -times)
        return task

    unbroken.rollouts.source.draw = noted  # type: ignore[method-assign]
    assert 0 < unbroken.step()["invalid_rate"] < 1
    resumed = after_a_stop(cell, unbroken)
    assert unbroken.step() == resumed.step()
    pairs = zip(unbroken.actor.parameters(), resumed.actor.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)

    size = unbroken.params.rollout.group_size
    assert len(seats) >= 4 // size
    assert all(abs(sum(seats[:count])) <= size for count in range(len(seats))), "each step mixes the seats"

    batch = unbroken.rollouts._ready or unbroken.rollouts.play()
    samples = unbroken.learner.advantages(batch.trajectories, unbroken.learner.read(batch.turns))
    actual, expected = weight_at_the_start(samples)
    served = cell.besides == "served"
    if cell.dtype is torch.float32 or cell.ahead or cell.turns or served:
        exact = cell.dtype is torch.float32 and not served
        capped = expected if exact else expected.clamp(max=2.0)
        torch.testing.assert_close(actual, capped, rtol=1e-3, atol=1e-3)
    else:  # what the present policy drew is read again, and only rounding is left out
        assert torch.equal(actual, torch.ones_like(actual)) and (expected - 1).abs().mean() < 0.1
    if cell.ahead:
        assert (expected - 1).abs().max() > 0.01, "the policy has moved since"
    cut = [one for one in batch.trajectories if one.following]
    assert bool(cut) is (served and cell.turns is not None)
    for one in cut:
        score = unbroken.actor.score(unbroken.actor.batch([one.following or ([], [])]), 1.0)
        apart = one.bootstrap - score.values[0, 0].item()
        assert abs(apart) < (1e-5 if cell.dtype is torch.float32 else 0.05) and one.bootstrap


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_but_the_estimators_own_terms_moves_the_policy(estimator: str) -> None:
    cell = Cell(torch.float32, None, False, estimator, "")
    critic = ESTIMATORS[estimator].compare is None
    moved = {}
    for coefficient in (0.0, 0.1):
        loss = cell.params.loss.model_copy(update={"value_coefficient": coefficient})
        ppo = trainer(cell, loss=loss)
        batch = ppo.rollouts._played_by_all(ppo.rollouts.play)
        samples = ppo.learner.advantages(batch.trajectories, ppo.learner.read(batch.turns))
        before = [weight.detach().clone() for weight in ppo.actor.policy.parameters()]
        still = [replace(one, advantages=[0.0] * len(one.own)) for one in samples]
        metrics = ppo.learner.update(still, batch.numbers, 0)
        assert ("value_loss" in metrics) is critic
        pairs = zip(before, ppo.actor.policy.parameters(), strict=True)
        moved[coefficient] = not all(torch.equal(one, other) for one, other in pairs)
    assert moved == {0.0: False, 0.1: critic}


def test_what_is_not_allowed_is_refused_in_one_sentence() -> None:
    assert ALLOWED
    for cell in set(CELLS) - set(ALLOWED):
        assert cell.refusal == f"rollout.turns_per_step is 7, expected null if advantage.estimator is {cell.estimator}"
