"""PPO takes a step on all seats of MAROONED: one student for every sailor, and an earlier one as its opponent."""

from collections import Counter

import pytest
import torch

from castaway.config.ppo import ReplayParams
from castaway.envs.marooned.task import Marooned, MaroonedParams
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import NoScorer, ppo_params, stirred, student


@pytest.mark.parametrize("turns_per_step", [None, 30])
def test_a_step_learns_from_every_sailor_that_the_student_plays(turns_per_step: int | None) -> None:
    torch.set_num_threads(1)
    task = Marooned(
        MaroonedParams(
            scenario="skiff", rendering="compact", traitor_share=0.25, all_share=0.25, self_share=0.25, turns=3,
            repertoire="whole",
        )
    )  # fmt: skip
    params = ppo_params(
        steps=2, epochs=1, episodes_per_step=4, turns_per_step=turns_per_step, max_new_tokens=4, reward_model_weight=0.0
    )
    replay = ReplayParams(share=0.0, capacity=8, mastery=1)
    source = EpisodeSource(task.curriculum(4), replay, 1, "crew", task.kind_of)
    actor, tokenizer = student()
    trainer = PpoTrainer(
        stirred(actor), tokenizer, task.make, RulesTeacher(task.make().rules), NoScorer(), params, 1, source  # type: ignore[arg-type]
    )  # fmt: skip
    before = {name: weight.detach().clone() for name, weight in trainer.trained().items()}
    learned: Counter[tuple[str, str]] = Counter()
    with trainer.rollouts.next(0) as batch:
        for one in batch.trajectories:
            learned[one.agent, one.role] += len(one.turns)
    if turns_per_step is None:
        # Three turns of four colonists, one traitor, five sailors, and one side against the earlier policy.
        sides = {episode.seat: len(episode.trajectories) for episode in batch.finished}
        assert sides.keys() == {"crew", "traitor", "all", "self"} and sides["self"] in (1, 4)
        assert (sides["crew"], sides["traitor"], sides["all"]) == (4, 1, 5)
        assert learned.total() == 3 * sum(sides.values())
    assert {role for _, role in learned} == {"colonist", "traitor"}
    metrics = trainer.step()
    assert metrics["turns"] > 0 and metrics["gradient_norm"] > 0
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.trained().items())
