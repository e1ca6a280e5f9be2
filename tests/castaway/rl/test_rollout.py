"""Which text is paid for what: rollouts, token rewards and samples."""

import dataclasses
from collections.abc import Sequence
from math import exp
from threading import Event

import pytest

from castaway.rl.rewards import make_samples, token_rewards, turn_reward
from castaway.rl.rollout import Generation, play_episodes
from castaway.rl.trajectory import Trajectory, Turn
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.teacher.base import Attempt, TeacherOutage, Verdict
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads, ppo_params


def saying(*texts: str) -> list[list[Generation]]:
    """What the walker says in each step."""
    return [[Generation(f"REASONING: a\nACTION: {text}", [1], [2, 3], [-0.5, -0.5], [0.0, 0.0])] for text in texts]


def walk(*texts: str, teacher: bool = True) -> dict[str, Trajectory]:
    """An episode of the walker's words; the guide says LEFT."""
    rest = iter(saying(*texts))

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        (mine,) = next(rest)
        return [mine if prompt.agent == "walker" else saying("LEFT")[0][0] for prompt in prompts]

    judge = RulesTeacher(AnyText()) if teacher else None
    (episode,) = play_episodes(Crossroads, [(7, "crew")], policy, judge)
    return {trajectory.agent: trajectory for trajectory in episode.trajectories}


def test_what_is_paid_between_two_turns_belongs_to_the_earlier() -> None:
    trajectories = walk("LEFT", "RIGHT", "WAIT")
    assert [turn.reward for turn in trajectories["walker"].turns] == [0.0, 11.0, 0.0]
    (once,) = trajectories["guide"].turns
    assert (once.reward, once.later) == (3.0, [1.0, 1.0])  # who speaks once earns to the end
    assert not any(turn.later for turn in trajectories["walker"].turns)


def test_what_is_paid_in_later_rounds_is_discounted() -> None:
    (once,) = walk("LEFT", "RIGHT", "WAIT")["guide"].turns
    params = ppo_params(reward_scale=1.0, gamma_turn=0.5)
    assert turn_reward(once, 0.0, params) == pytest.approx(1.0 + 0.5 + 0.25)


def test_a_replaced_turn_is_executed_as_the_teacher_says_and_marked() -> None:
    first, second, _ = walk("go left!", "RIGHT", "WAIT")["walker"].turns
    assert (first.valid, first.action, first.penalty, first.critique) == (False, "LEFT", -0.75, "One word.")
    assert second.reward == 11.0


def test_without_a_teacher_what_is_not_legal_is_idleness() -> None:
    first, second, _ = walk("go left!", "RIGHT", "WAIT", teacher=False)["walker"].turns
    assert (first.valid, first.action, first.penalty) == (False, "WAIT", 0.0)
    assert second.reward == 1.0


def test_without_a_teacher_a_reply_without_an_action_is_not_valid_though_any_text_is_legal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AnyText, "refusal", lambda *_: None)
    first, *_ = walk("", "RIGHT", "WAIT", teacher=False)["walker"].turns
    assert (first.valid, first.action) == (False, "WAIT")
    assert first.critique == "The answer has no line that begins with ACTION: and an action."


class WaitingTeacher(RulesTeacher):
    """Judges nothing before the policy has spoken once more, or has nothing left to say."""

    def __init__(self, spoken: Event) -> None:
        super().__init__(AnyText())
        self._spoken = spoken
        self.waited: list[bool] = []

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        self.waited.append(self._spoken.wait(60.0))  # two threads of judges are here at one time
        return super().judge(attempts)


def test_with_two_lanes_one_is_played_while_the_other_is_judged() -> None:
    spoken = Event()
    teacher = WaitingTeacher(spoken)
    calls: list[int] = []

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        calls.append(len(prompts))
        if len(calls) > 1:
            spoken.set()
        return [Generation("REASONING: a\nACTION: LEFT") for _ in prompts]

    tasks = [(number, "crew") for number in range(5)]
    episodes = play_episodes(Crossroads, tasks, policy, teacher, parallel=4, lanes=2)
    assert teacher.waited == [True] * len(calls)  # the first judgement waited for the second call
    alone = play_episodes(Crossroads, tasks, policy, RulesTeacher(AnyText()), parallel=4)
    assert [e.trajectories for e in episodes] == [e.trajectories for e in alone]


def test_what_stops_the_teacher_stops_the_rollout() -> None:
    class Absent(RulesTeacher):
        def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
            raise TeacherOutage("gone")

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation("ACTION: LEFT") for _ in prompts]

    for lanes in (1, 2):
        with pytest.raises(TeacherOutage, match="gone"):
            play_episodes(Crossroads, [(1, "crew"), (2, "crew")], policy, Absent(AnyText()), lanes=lanes)


def test_episodes_come_back_in_the_order_of_the_tasks() -> None:
    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation("ACTION: LEFT") for _ in prompts]

    told: list[int] = []
    tasks = [(number, "crew") for number in (5, 3, 8, 1)]
    episodes = play_episodes(
        Crossroads, tasks, policy, None, parallel=2, keep_snapshots=1, on_finished=lambda e: told.append(e.task_id)
    )
    assert [episode.task_id for episode in episodes] == [5, 3, 8, 1]
    assert sorted(told) == [1, 3, 5, 8]
    assert [len(episode.snapshots) for episode in episodes] == [4, 0, 0, 0]
    assert episodes[0].snapshots[0]["said"]["walker"]["action"] == "LEFT"  # type: ignore[index]


def turn(reward: float, penalty: float = 0.0, valid: bool = True, tokens: int = 2) -> Turn:
    return Turn(
        messages=(),
        prompt_tokens=[1],
        reply_tokens=[2] * tokens,
        logprobs=[-1.0] * tokens,
        values=[0.0] * tokens,
        text="",
        reply=Reply("", ""),
        action="LEFT",
        valid=valid,
        penalty=penalty,
        reward=reward,
    )


def test_a_turns_reward_is_weighed() -> None:
    params = ppo_params(reward_scale=0.1, penalty_weight=2.0, reward_model_weight=0.5)
    # 0.1 * (3 + 2 * -1) + 0.5 * 4
    assert turn_reward(turn(3.0, -1.0), 4.0, params) == pytest.approx(2.1)


def test_a_reply_that_was_cut_off_is_not_paid_in_full() -> None:
    params = ppo_params(reward_scale=1.0, penalty_weight=1.0, cut_off_pay=0.25)
    cut = dataclasses.replace(turn(4.0), cut_off=True)
    assert turn_reward(cut, 0.0, params) == 1.0
    assert turn_reward(dataclasses.replace(turn(0.0, -2.0), cut_off=True), 0.0, params) == -2.0, "a loss counts whole"


def test_leave_one_out_is_scaled_and_not_shifted() -> None:
    params = PLAIN.model_copy(update={"estimator": "rloo", "group_size": 2})
    pair = [Trajectory(3, "walker", "walker", [turn(reward, tokens=1)]) for reward in (5.0, 1.0)]
    alone = Trajectory(4, "walker", "walker", [turn(2.0, tokens=1)])
    samples = make_samples([*pair, alone], [[[-1.0]]] * 3, [[0.0]] * 3, params, 0.0)
    # 4, -4, and 2 without others: mean 2/3, deviation sqrt(12 - 4/9)
    deviation = (12 - 4 / 9) ** 0.5
    assert [sample.advantages[0] for sample in samples] == pytest.approx([4 / deviation, -4 / deviation, 2 / deviation])
    assert [sample.returns[0] for sample in samples] == [5.0, 1.0, 2.0]


def test_scaled_by_itself_a_pair_does_not_know_by_how_much_the_one_is_better() -> None:
    """Whatever the estimator: only a larger batch has a scale that one turn hardly changes."""
    for estimator in ("gae", "rloo", "grpo"):
        params = PLAIN.model_copy(update={"estimator": estimator, "group_size": 2})
        for better in (1.5, 7.0):
            pair = [Trajectory(3, "walker", "walker", [turn(reward, tokens=1)]) for reward in (better, 1.0)]
            samples = make_samples(pair, [[[-1.0]]] * 2, [[0.0]] * 2, params, 0.0)
            assert [sample.advantages[0] for sample in samples] == pytest.approx([1.0, -1.0])


def test_token_rewards_hold_the_kl_penalty_and_the_reward_at_the_end() -> None:
    # -0.1 * (-1 + 3) = -0.2;  -0.1 * (-1 + 1) + 5
    assert token_rewards(turn(0.0).logprobs, [-3.0, -1.0], 5.0, 0.1, "k1") == pytest.approx([-0.2, 5.0])
    # d = -2: exp(-2) + 1
    assert token_rewards(turn(0.0).logprobs, [-3.0, -1.0], 5.0, 0.1, "k3") == pytest.approx([-0.1 * (exp(-2) + 1), 5.0])


def test_the_penalty_is_for_the_trainers_distance_whatever_the_ratio_is_against() -> None:
    trajectory = Trajectory(0, "walker", "walker", [turn(5.0, tokens=1)])
    given = ([trajectory], [[[-3.0]]], [[0.0]], PLAIN, 0.1)
    (plain,) = make_samples(*given)
    # The sampler had log p = -1 and the trainer has -2: 5 - 0.1 * (-1 + 3), and 5 - 0.1 * (-2 + 3).
    assert (plain.returns[0], plain.own, plain.old_logprobs) == (pytest.approx(4.8), [-1.0], [-1.0])
    for recorded, old in ((False, [-2.0]), (True, [-1.0])):
        (late,) = make_samples(*given, own=[[[-2.0]]], ratio_to_sampler=recorded)
        assert (late.returns[0], late.own, late.old_logprobs) == (pytest.approx(4.9), [-2.0], old)


PLAIN = ppo_params(
    reward_scale=1.0, penalty_weight=1.0, reward_model_weight=0.0, importance_cap=None,
    gamma_turn=1.0, lambda_turn=1.0, gamma_token=1.0, lambda_token=1.0,
)  # fmt: skip


def advantages_of(*turns: Turn) -> list[list[float]]:
    trajectory = Trajectory(0, "walker", "walker", list(turns))
    references = [[turn.logprobs for turn in turns]]
    return [sample.advantages for sample in make_samples([trajectory], references, [[0.0] * len(turns)], PLAIN, 0.0)]


def test_advantages_are_whitened_over_the_credited_tokens() -> None:
    # advantages 4 and 2 (values are 0, nothing discounted): mean 3, deviation 1
    assert advantages_of(turn(2.0, tokens=1), turn(2.0, tokens=1)) == [[1.0], [-1.0]]


def test_a_replaced_turn_earns_its_penalty_and_nothing_else() -> None:
    valid = [turn(2.0, tokens=1), turn(100.0, -1.0, valid=False), turn(2.0, tokens=1)]
    first, replaced, last = advantages_of(*valid)
    # credited: 2 + 99 + 2 = 103 and 2, mean 52.5, deviation 50.5
    assert first + last == pytest.approx([1.0, -1.0])
    assert replaced == pytest.approx([-1 / 50.5] * 2)
    richer = [valid[0], turn(100.0, -2.0, valid=False), valid[2]]
    assert advantages_of(*richer)[1] == pytest.approx([-2 / 50.0] * 2)  # 102 and 2: deviation 50


def test_the_critic_still_learns_what_a_replaced_turn_was_worth() -> None:
    trajectory = Trajectory(0, "walker", "walker", [turn(5.0, -1.0, valid=False), turn(2.0)])
    samples = make_samples([trajectory], [[[-1.0, -1.0]] * 2], [[0.0, 0.0]], PLAIN, 0.0)
    assert [sample.returns for sample in samples] == [[6.0, 6.0], [2.0, 2.0]]


def test_each_role_is_measured_by_its_own_scale() -> None:
    rich, poor = (
        Trajectory(0, role, role, [turn(first, tokens=1), turn(last, tokens=1)])
        for role, first, last in (("crew", 20.0, 100.0), ("traitor", -2.0, 0.0))
    )
    references = [[each.logprobs for each in trajectory.turns] for trajectory in (rich, poor)]

    def advantages(normalise_by: str) -> list[float]:
        params = PLAIN.model_copy(update={"normalise_by": normalise_by})
        samples = make_samples([rich, poor], references, [[0.0] * 2] * 2, params, 0.0)
        return [sample.advantages[0] for sample in samples]

    # Advantages 120, 100, -2, 0. Over the batch all that the traitor does is bad; within its role one half is good.
    assert [value > 0 for value in advantages("batch")] == [True, True, False, False]
    assert advantages("role") == pytest.approx([1.0, -1.0, -1.0, 1.0])
