"""Playing many episodes side by side: all speakers of all episodes answer in one batch.

Without a teacher what is not a legal action counts as the environment's idle action; with one, its verdict is executed.
In self-play the others' prompts go to a second speaker, all of a round in one batch as well; no teacher helps them, and
their turns are executed and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from castaway.rl.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import Prompt, TextEnvironment
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
            if prompt.rival:
                continue
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
                    source=verdict.source,
                    dispute=verdict.dispute,
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
    lanes: int = 1,
    keep_snapshots: int = 0,
    rival: Speaker | None = None,
    on_finished: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Play an episode for each (task id, seat).

    Args:
        make: makes an environment.
        tasks: what to play.
        speaker: answers for the agents of the seats.
        teacher: judges each answer; None plays without help.
        parallel: episodes in progress at one time; finished ones are replaced from `tasks`.
        lanes: groups of them; while the teacher judges one, the speaker answers for another.
        keep_snapshots: the first so many tasks keep their moments for a replay.
        rival: answers for the others in self-play; without one, `speaker` does.
        on_finished: told of each finished episode.

    Returns:
        The episodes in the order of `tasks`.
    """
    waiting = list(enumerate(tasks))[::-1]
    count = min(parallel, len(tasks))
    free = [[make() for _ in range(lane, count, lanes)] for lane in range(lanes)]
    playing: list[dict[int, Table]] = [{} for _ in range(lanes)]
    begun: list[Round | None] = [None] * lanes
    finished: dict[int, Episode] = {}
    with judging(teacher, lanes) as judge:
        # Rounds begin and end in an order of their own, whoever is faster: so the same is drawn each time.
        while waiting or any(playing):
            for lane, tables in enumerate(playing):
                if (current := begun[lane]) is not None:
                    current.end(keep_snapshots)
                for number in [number for number, table in tables.items() if table.environment.done]:
                    table = tables.pop(number)
                    free[lane].append(table.environment)
                    finished[number] = table.episode()
                    on_finished(finished[number])
                while waiting and free[lane]:
                    number, (task_id, seat) = waiting.pop()
                    tables[number] = Table(free[lane].pop(), task_id, seat)
                    tables[number].environment.reset(task_id, seat)
                begun[lane] = begin_round(tables, speaker, rival, judge) if tables else None
    return [finished[number] for number in range(len(tasks))]


def play_round(playing: dict[int, Table], speaker: Speaker, rival: Speaker | None, teacher: Teacher) -> None:
    """Everybody who must speak does so once."""
    with judging(teacher, lanes=1) as judge:
        begin_round(playing, speaker, rival, judge).end(keep=0)


@dataclass(frozen=True, slots=True)
class Round:
    """What everybody said; it ends when it is judged and executed."""

    spoken: Sequence[tuple[int, Table, Sequence[Prompt]]]
    answers: list[Answer]
    attempts: list[Attempt]
    verdicts: Callable[[], list[Verdict]]
    """Waits for the teacher."""

    def end(self, keep: int) -> None:
        """Execute it; the first `keep` tables keep the moment."""
        verdicts, start = self.verdicts(), 0
        for number, table, prompts in self.spoken:
            here = slice(start, start + len(prompts))
            start = here.stop
            if number < keep:
                table.snapshots.append(_moment(table.environment, self.attempts[here], verdicts[here]))
            table.play(prompts, self.answers[here], verdicts[here])
            if number < keep and table.environment.done:
                table.snapshots.append(_moment(table.environment, [], []))


Judge = Callable[[Sequence[tuple[TextEnvironment, Attempt]]], Callable[[], list[Verdict]]]
"""Is handed attempts with their games, and hands back what waits for the verdicts."""


def begin_round(playing: dict[int, Table], speaker: Speaker, rival: Speaker | None, judge: Judge) -> Round:
    """Everybody who must speak does so once, and the judge begins."""
    spoken = [(number, table, table.environment.prompts()) for number, table in sorted(playing.items())]
    asked = [(table.environment, prompt) for _, table, prompts in spoken for prompt in prompts]
    answers = _answers([prompt for _, prompt in asked], speaker, rival)
    attempts = [Attempt.of(prompt, answer.text) for (_, prompt), answer in zip(asked, answers, strict=True)]
    games = [environment for environment, _ in asked]
    return Round(spoken, answers, attempts, _judged(list(zip(games, attempts, strict=True)), judge))


def _answers(prompts: Sequence[Prompt], speaker: Speaker, rival: Speaker | None) -> list[Answer]:
    """One for each prompt: those of rivals by `rival`, if there is one."""
    if rival is None:
        return speaker(prompts)
    own, others = ([prompt for prompt in prompts if prompt.rival is side] for side in (False, True))
    said = {False: iter(speaker(own) if own else ()), True: iter(rival(others) if others else ())}
    return [next(said[prompt.rival]) for prompt in prompts]


def _judged(asked: Sequence[tuple[TextEnvironment, Attempt]], judge: Judge) -> Callable[[], list[Verdict]]:
    """Waits for the judge's verdicts; nobody judges a rival's attempts."""
    own = [(environment, attempt) for environment, attempt in asked if not attempt.prompt.rival]
    wait: Callable[[], list[Verdict]] = judge(own) if own else list

    def verdicts() -> list[Verdict]:
        found = iter(wait())
        return [_as_it_stands(*pair) if pair[1].prompt.rival else next(found) for pair in asked]

    return verdicts


@contextmanager
def judging(teacher: Teacher | None, lanes: int) -> Iterator[Judge]:
    """At once, or if there is more than one lane in threads beside the one that speaks."""
    if teacher is None:
        yield lambda asked: lambda: [_as_it_stands(environment, attempt) for environment, attempt in asked]
    elif lanes == 1:
        yield lambda asked: lambda: teacher.judge([attempt for _, attempt in asked])
    else:
        with ThreadPoolExecutor(lanes, "judge") as thread:
            yield lambda asked: thread.submit(teacher.judge, [attempt for _, attempt in asked]).result


def _as_it_stands(environment: TextEnvironment, attempt: Attempt) -> Verdict:
    """Nobody helps: a legal action is executed, anything else is idleness."""
    action = attempt.reply.action
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
