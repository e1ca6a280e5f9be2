"""Who plays, who judges, and which turn is paid for what."""

from collections.abc import Sequence
from threading import Event

import pytest

from castaway.rollout.play import Generation, play_episodes
from castaway.rollout.trajectory import Trajectory
from castaway.tasks.environment import Prompt
from castaway.tasks.verdict import Attempt, TeacherOutage, Verdict
from castaway.teacher.rules import RulesTeacher
from tests.castaway.rl.small import AnyText, Crossroads


def saying(*texts: str) -> list[list[Generation]]:
    """What the walker says in each step."""
    return [[Generation(f"REASONING: a\nACTION: {text}", [1], [2, 3], [-0.5, -0.5], [0.0, 0.0])] for text in texts]


def walk(*texts: str, teacher: bool = True) -> dict[str, Trajectory]:
    """An episode of the walker's words; the guide says LEFT."""
    rest = iter(saying(*texts))

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        (mine,) = next(rest)
        return [mine if prompt.agent == "walker" else saying("LEFT")[0][0] for prompt in prompts]

    (episode,) = play_episodes(Crossroads, [(7, "crew")], policy, RulesTeacher(AnyText()) if teacher else None)
    return {trajectory.agent: trajectory for trajectory in episode.trajectories}


def test_what_is_paid_between_two_turns_belongs_to_the_earlier() -> None:
    trajectories = walk("LEFT", "RIGHT", "WAIT")
    assert [turn.reward for turn in trajectories["walker"].turns] == [0.0, 11.0, 0.0]
    (once,) = trajectories["guide"].turns
    assert (once.reward, once.later) == (3.0, [1.0, 1.0])  # who speaks once earns to the end
    assert not any(turn.later for turn in trajectories["walker"].turns)


def test_a_replaced_turn_is_executed_as_the_teacher_says_and_marked() -> None:
    first, second, _ = walk("go left!", "RIGHT", "WAIT")["walker"].turns
    assert (first.valid, first.action, first.penalty, first.critique) == (False, "LEFT", -0.75, "One word.")
    assert second.reward == 11.0


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


def test_with_two_groups_one_is_played_while_the_other_is_judged() -> None:
    spoken = Event()
    teacher = WaitingTeacher(spoken)
    calls: list[int] = []

    def policy(prompts: Sequence[Prompt]) -> list[Generation]:
        calls.append(len(prompts))
        if len(calls) > 1:
            spoken.set()
        return [Generation("REASONING: a\nACTION: LEFT") for _ in prompts]

    tasks = [(number, "crew") for number in range(5)]
    episodes = play_episodes(Crossroads, tasks, policy, teacher, parallel=4, groups=2)
    assert teacher.waited == [True] * len(calls)  # the first judgement waited for the second call
    alone = play_episodes(Crossroads, tasks, policy, RulesTeacher(AnyText()), parallel=4)
    assert [e.trajectories for e in episodes] == [e.trajectories for e in alone]


def left(prompts: Sequence[Prompt]) -> list[Generation]:
    return [Generation("ACTION: LEFT") for _ in prompts]


def test_what_stops_the_teacher_stops_the_rollout() -> None:
    class Absent(RulesTeacher):
        def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
            raise TeacherOutage("gone")

    for groups in (1, 2):
        with pytest.raises(TeacherOutage, match="gone"):
            play_episodes(Crossroads, [(1, "crew"), (2, "crew")], left, Absent(AnyText()), groups=groups)


def test_episodes_come_back_in_the_order_of_the_tasks() -> None:
    told: list[int] = []
    tasks = [(number, "crew") for number in (5, 3, 8, 1)]
    episodes = play_episodes(
        Crossroads, tasks, left, None, parallel=2, keep_snapshots=1, on_finished=lambda e: told.append(e.task_id)
    )
    assert [episode.task_id for episode in episodes] == [5, 3, 8, 1]
    assert sorted(told) == [1, 3, 5, 8]
    assert [len(episode.snapshots) for episode in episodes] == [4, 0, 0, 0]
    assert episodes[0].snapshots[0]["said"]["walker"]["action"] == "LEFT"  # type: ignore[index]
