"""Playing many episodes side by side: all speakers of all episodes answer in one batch.

Without a teacher what is not a legal action counts as the environment's idle action; with one, its verdict is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from castaway.chat import parse_reply
from castaway.envs.base import Prompt, TextEnvironment
from castaway.rl.trajectory import Episode, Trajectory, Turn
from castaway.teacher.base import Attempt, Teacher, Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What a speaker says: text, and the tokens behind it if a model drew them."""

    text: str
    prompt_tokens: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


Speaker = Callable[[Sequence[Prompt]], list[Answer]]
"""A policy: answers for many prompts at once."""


@dataclass(slots=True)
class Table:
    """One episode in progress."""

    environment: TextEnvironment
    task_id: int
    seat: str
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    played: list[dict[str, str]] = field(default_factory=list)
    """The executed actions of each round: with the task id, they are the whole state of the game."""
    snapshots: list[dict[str, object]] = field(default_factory=list)

    def play(self, prompts: Sequence[Prompt], answers: Sequence[Answer], verdicts: Sequence[Verdict]) -> None:
        """Execute one round and write it down."""
        for prompt, answer, verdict in zip(prompts, answers, verdicts, strict=True):
            trajectory = self.trajectories.setdefault(prompt.agent, Trajectory(self.task_id, prompt.agent, prompt.role))
            trajectory.turns.append(
                Turn(
                    prompt.messages,
                    answer.prompt_tokens,
                    answer.tokens,
                    answer.logprobs,
                    answer.values,
                    answer.text,
                    verdict.action,
                    verdict.valid,
                    verdict.penalty,
                    verdict.critique,
                    reasoning=verdict.reasoning,
                )
            )
        self.played.append({prompt.agent: verdict.action for prompt, verdict in zip(prompts, verdicts, strict=True)})
        paid = self.environment.step(self.played[-1])
        for agent, amount in paid.items():
            # Also who did not speak this time: what it is paid belongs to its latest turn.
            if agent in self.trajectories:
                self.trajectories[agent].turns[-1].reward += amount

    def episode(self) -> Episode:
        """What is left of it when it is over."""
        trajectories = list(self.trajectories.values())
        return Episode(self.task_id, self.seat, trajectories, self.environment.outcome(), self.snapshots)


def play_episodes(
    make: Callable[[], TextEnvironment],
    tasks: Sequence[tuple[int, str]],
    speaker: Speaker,
    teacher: Teacher | None,
    *,
    parallel: int = 64,
    keep_snapshots: int = 0,
    on_finished: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Play an episode for each (task id, seat).

    Args:
        make: makes an environment.
        tasks: what to play.
        speaker: answers for the agents of the seats.
        teacher: judges each answer; None plays without help.
        parallel: episodes in progress at one time; finished ones are replaced from `tasks`.
        keep_snapshots: the first so many tasks keep their moments for a replay.
        on_finished: told of each finished episode.

    Returns:
        The episodes in the order of `tasks`.
    """
    waiting = list(enumerate(tasks))[::-1]
    free = [make() for _ in range(min(parallel, len(tasks)))]
    playing: dict[int, Table] = {}
    finished: dict[int, Episode] = {}
    while waiting or playing:
        while waiting and free:
            number, (task_id, seat) = waiting.pop()
            table = Table(free.pop(), task_id, seat)
            table.environment.reset(task_id, seat)
            playing[number] = table
        play_round(playing, speaker, teacher, keep_snapshots)
        for number in [number for number, table in playing.items() if table.environment.done]:
            table = playing.pop(number)
            free.append(table.environment)
            finished[number] = table.episode()
            on_finished(finished[number])
    return [finished[number] for number in range(len(tasks))]


def play_round(playing: dict[int, Table], speaker: Speaker, teacher: Teacher | None, keep: int) -> None:
    """Everybody who must speak does so once; the first `keep` tables keep the moment."""
    rounds = [(number, table, table.environment.prompts()) for number, table in sorted(playing.items())]
    prompts = [prompt for _, _, spoken in rounds for prompt in spoken]
    answers = speaker(prompts)
    attempts = [Attempt(prompt, answer.text) for prompt, answer in zip(prompts, answers, strict=True)]
    verdicts = teacher.judge(attempts) if teacher else []
    if not teacher:
        for _, table, spoken in rounds:
            start = len(verdicts)
            verdicts += [_as_it_stands(table.environment, a) for a in attempts[start : start + len(spoken)]]
    start = 0
    for number, table, spoken in rounds:
        end = start + len(spoken)
        if number < keep:
            table.snapshots.append(_moment(table.environment, attempts[start:end], verdicts[start:end]))
        table.play(spoken, answers[start:end], verdicts[start:end])
        if number < keep and table.environment.done:
            table.snapshots.append(_moment(table.environment, [], []))
        start = end


def _as_it_stands(environment: TextEnvironment, attempt: Attempt) -> Verdict:
    """Nobody helps: a legal action is executed, anything else is idleness."""
    action = parse_reply(attempt.text).action
    refusal = environment.rules.refusal(attempt.prompt.observation, action)
    if refusal:
        return Verdict(False, environment.idle, 0.0, refusal.sentence, "", "none")
    return Verdict(True, action, 0.0, "", "", "none")


def _moment(
    environment: TextEnvironment, attempts: Sequence[Attempt], verdicts: Sequence[Verdict]
) -> dict[str, object]:
    """The truth before a round, with what was said in it and how it was judged."""
    said = {
        attempt.prompt.agent: {
            "text": attempt.text,
            "action": verdict.action,
            "valid": verdict.valid,
            "penalty": verdict.penalty,
            "critique": verdict.critique,
        }
        for attempt, verdict in zip(attempts, verdicts, strict=True)
    }
    return {**environment.snapshot(), "said": said}
