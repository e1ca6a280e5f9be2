"""Best of n replies; and who the others are in self-play, from whose turns nobody learns."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from castaway.config.ppo import PpoParams, SelfPlayParams
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import tables_named
from castaway.rl.checkpoint import load_newest, save_checkpoint
from castaway.rl.episode_source import EpisodeSource
from castaway.rl.ppo import PpoTrainer
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.play import Generation, play_episodes
from castaway.rollout.policies import BestOf, FrozenPool
from castaway.rollout.sampling import SamplingRules
from castaway.tasks.environment import SELF_PLAY, CurriculumStage, Prompt
from castaway.tasks.verdict import Attempt, Verdict
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import NoScorer, ppo_params, stirred, student
from tests.castaway.rl.training import LengthScorer
from tests.shipped import PARAMS

GAMES = ["tic_tac_toe", "kuhn_poker three players", "pig to 10"]
SEATS = ("self", "random")


def environment() -> OpenSpielEnvironment:
    return OpenSpielEnvironment(SEATS, "compact")


class Listening(RulesTeacher):
    """Remembers whom it judged."""

    def __init__(self) -> None:
        super().__init__(environment().rules)
        self.heard: list[Attempt] = []

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        self.heard += attempts
        return super().judge(attempts)


class Saying:
    """Says one thing, and counts the prompts of each batch."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[list[Prompt]] = []

    def __call__(self, prompts: Sequence[Prompt]) -> list[Generation]:
        self.asked.append(list(prompts))
        return [Generation(self.text, [1], [2], [-1.0], [0.0]) for _ in prompts]


@pytest.mark.parametrize("groups", [1, 2])
def test_opponents_are_played_by_another_speaker_and_leave_nothing_to_learn_from(groups: int) -> None:
    tasks = [(task_id, SEATS[number % 2]) for number, task_id in enumerate(tables_named(GAMES)[:24])]
    student, opponent, teacher = Saying("REASONING: a\nACTION: 1"), Saying("ACTION: nonsense"), Listening()
    episodes = play_episodes(environment, tasks, student, teacher, groups=groups, opponent=opponent, keep_snapshots=24)
    assert all([trajectory.agent for trajectory in episode.trajectories] == ["player"] for episode in episodes)
    assert not any(prompt.opponent for batch in student.asked for prompt in batch)
    assert opponent.asked and all(prompt.opponent for batch in opponent.asked for prompt in batch)
    # All rivals of a round at once, and the student is never asked for nothing.
    assert max(map(len, opponent.asked)) > 1 and min(map(len, [*student.asked, *opponent.asked])) > 0
    assert all(not attempt.prompt.opponent for attempt in teacher.heard)
    for episode in episodes:
        turns = episode.trajectories[0].turns
        assert turns[-1].reward == episode.outcome.details["score"]
        said = [said for moment in episode.snapshots for said in moment["said"].items()]  # type: ignore[attr-defined]
        assert len([agent for agent, _ in said if agent == "player"]) == len(turns) == episode.outcome.details["length"]
        # What a rival says is not mended: it is the lot's draw.
        others = [words for agent, words in said if agent != "player"]
        assert all((words["action"], words["valid"], words["critique"] != "") == ("0", False, True) for words in others)
        assert bool(others) <= (episode.seat == SELF_PLAY)


def test_without_a_rival_the_speaker_plays_both_sides() -> None:
    policy = Saying("ACTION: 1")
    (episode,) = play_episodes(environment, [(0, SELF_PLAY)], policy, None)
    assert {prompt.agent for batch in policy.asked for prompt in batch} == {"player", "rival 1"}
    assert [trajectory.agent for trajectory in episode.trajectories] == ["player"]


def pool_of(actor: ActorCritic, tokenizer: Any, seed: int = 1) -> FrozenPool:
    params = SelfPlayParams(size=2, interval=3)
    rules = SamplingRules.of(tokenizer, ppo_params(max_new_tokens=6).rollout)
    return FrozenPool(actor, tokenizer, params, rules, torch.Generator().manual_seed(5), seed)


def adapter(actor: ActorCritic) -> dict[str, torch.Tensor]:
    return {name: w.detach().clone() for name, w in actor.policy.named_parameters() if w.requires_grad}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_pool_begins_with_the_first_policy_and_keeps_the_newest() -> None:
    actor, tokenizer = student()
    pool, seen = pool_of(actor, tokenizer), [adapter(actor)]
    for step in range(1, 10):
        stirred(actor)
        pool.draw(step)
        if step % 3 == 0:
            seen.append(adapter(actor))
        members = pool.state()
        assert len(members) == min(2, len(seen)) and all(map(same, members, seen[-2:]))
    stirred(actor)
    assert all(map(same, pool.state(), seen[-2:]))


def test_what_a_pool_draws_is_decided_by_seed_and_step_and_survives_a_checkpoint(tmp_path: Path) -> None:
    actor, tokenizer = student()
    pool = pool_of(actor, tokenizer)
    pool.draw(3)
    stirred(actor, 1.0)
    pool.draw(6)
    save_checkpoint(tmp_path, 6, {"pool": pool.state()})
    saved = load_newest(tmp_path)
    assert saved is not None
    other = pool_of(*student(seed=0))
    other.load_state(saved["pool"])
    drawn = []
    for step in (step for step in range(1, 18) if step % 3):  # in which nobody joins
        pool.draw(step)
        other.draw(step)
        drawn.append(adapter(pool._frozen))
        assert same(drawn[-1], adapter(other._frozen))
        assert any(same(drawn[-1], member) for member in pool.state())
    assert not all(same(drawn[0], one) for one in drawn)
    other.draw(1)
    assert same(drawn[0], adapter(other._frozen))
    # Who is drawn is who speaks, whatever the actor has become.
    environment_of_one = environment()
    environment_of_one.reset(0, "random")
    asked = [*environment_of_one.prompts()] * 4
    pool.draw(1)
    said = [answer.logprobs for answer in pool(asked)]
    stirred(actor)
    other._policy._generator.manual_seed(5)
    assert said == [answer.logprobs for answer in other(asked)]


def trainer(seed: int = 1, **changes: Any) -> PpoTrainer:
    params: PpoParams = ppo_params(
        self_play=SelfPlayParams(size=2, interval=1), episodes_per_step=4, max_new_tokens=6, steps=4, sft_interval=1,
        sft_minimum=1, minibatch_turns=16, epochs=1, **changes,
    )  # fmt: skip
    stages = [
        CurriculumStage("easy", tables_named(GAMES), ("random", "self"), threshold=0.2, window=2),
        CurriculumStage("hard", tables_named(GAMES), ("self",)),
    ]
    source = EpisodeSource(stages, PARAMS.ppo.replay, seed, "random")
    return PpoTrainer(*student(), environment, RulesTeacher(environment().rules), NoScorer(), params, seed, source)


@pytest.mark.parametrize("changes", [{"turns_per_step": 7}, {"async_rollout": True, "rollout_groups": 2}])
def test_a_resumed_run_of_self_play_goes_on_as_if_unbroken(changes: dict[str, Any]) -> None:
    unbroken = trainer(**changes)
    for _ in range(2):
        assert unbroken.step()["turns"] > 0
    disk = io.BytesIO()
    torch.save(unbroken.state(), disk)
    disk.seek(0)
    state = torch.load(disk, weights_only=False)
    assert len(state["pool"]) == 2
    resumed = trainer(seed=1, **changes)
    resumed.load_state(state)
    assert [unbroken.step() for _ in range(2)] == [resumed.step() for _ in range(2)]
    pairs = zip(unbroken.actor.parameters(), resumed.actor.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert all(map(same, unbroken.state()["pool"], resumed.state()["pool"]))
    assert any(seat == SELF_PLAY for _, seat in unbroken.rollouts.source.tallies)


@pytest.mark.parametrize(("count", "said"), [(1, ["a", "bbb"]), (2, ["aa", "bbb"]), (3, ["aa", "bbbb"])])
def test_the_best_of_several_is_said(count: int, said: list[str]) -> None:
    answers = {"one": iter(["a", "aa", "a"]), "other": iter(["bbb", "b", "bbbb"])}
    prompts = [Prompt(name, "", ({"role": "user", "content": name},), None) for name in answers]

    def draw(asked: Sequence[Prompt]) -> list[Generation]:
        return [Generation(next(answers[prompt.messages[0]["content"]])) for prompt in asked]

    policy = BestOf(draw, LengthScorer(), count)
    assert [answer.text for answer in policy(prompts)] == said
