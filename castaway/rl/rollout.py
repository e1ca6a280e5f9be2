"""Playing many episodes side by side: one batch holds the replies of all agents of all episodes.

Without a teacher what is not a legal action counts as the environment's idle action; with one, its verdict is executed.
In self-play the others' prompts go to a second policy, all of a round in one batch as well; no teacher helps them, and
their turns are executed but not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from castaway.rl.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import Prompt, Refusal, TextEnvironment
from castaway.teacher.base import WITHOUT_ACTION, Attempt, Teacher, Verdict


@dataclass(frozen=True, slots=True)
class Generation:
    """A policy's reply: text, and the tokens behind it if a model drew them."""

    text: str
    prompt_tokens: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """The reply's tokens, with the stop token if it came."""
    logprobs: list[float] = field(default_factory=list)
    """(tokens) log-probability in nats of each token at the sampling temperature."""
    values: list[float] = field(default_factory=list)
    """(tokens) value before each token; empty if the sampler has no critic."""
    cut_off: bool = False
    """Whether it reached the length limit before a stop token."""


Policy = Callable[[Sequence[Prompt]], list[Generation]]
"""Replies to many prompts at once, one for each."""


@dataclass(slots=True)
class Table:
    """One episode in progress."""

    environment: TextEnvironment
    task_id: int
    seat: str
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    """By agent; rivals have none."""
    played: list[dict[str, str]] = field(default_factory=list)
    """The executed actions of each round: with the task id, they are the whole state of the game."""
    snapshots: list[dict[str, object]] = field(default_factory=list)

    def play(self, attempts: Sequence[Attempt], generations: Sequence[Generation], verdicts: Sequence[Verdict]) -> None:
        """Execute one round and record it."""
        for attempt, generation, verdict in zip(attempts, generations, verdicts, strict=True):
            prompt = attempt.prompt
            if prompt.rival:
                continue
            trajectory = self.trajectories.setdefault(prompt.agent, Trajectory(self.task_id, prompt.agent, prompt.role))
            trajectory.turns.append(
                Turn(
                    messages=prompt.messages,
                    prompt_tokens=generation.prompt_tokens,
                    reply_tokens=generation.tokens,
                    logprobs=generation.logprobs,
                    values=generation.values,
                    text=attempt.text,
                    cut_off=generation.cut_off,
                    reply=attempt.reply,
                    action=verdict.action,
                    valid=verdict.valid,
                    penalty=verdict.penalty,
                    critique=verdict.critique,
                    reasoning=verdict.reasoning,
                    better=verdict.better,
                    source=verdict.source,
                    dispute=verdict.dispute,
                )
            )
        self.played.append(
            {attempt.prompt.agent: verdict.action for attempt, verdict in zip(attempts, verdicts, strict=True)}
        )
        paid = self.environment.step(self.played[-1])
        for agent, trajectory in self.trajectories.items():
            # An agent without a prompt in this round may be paid too: that belongs to its latest turn.
            latest, amount = trajectory.turns[-1], paid.get(agent, 0.0)
            latest.reward += amount
            if agent not in self.played[-1]:
                latest.later.append(amount)

    def episode(self) -> Episode:
        """The finished episode."""
        return Episode(
            task_id=self.task_id,
            seat=self.seat,
            trajectories=list(self.trajectories.values()),
            outcome=self.environment.outcome(),
            snapshots=self.snapshots,
        )


def play_episodes(
    make: Callable[[], TextEnvironment],
    tasks: Sequence[tuple[int, str]],
    policy: Policy,
    teacher: Teacher | None,
    *,
    parallel: int = 64,
    lanes: int = 1,
    keep_snapshots: int = 0,
    rival: Policy | None = None,
    on_finished: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Play an episode for each (task id, seat).

    Args:
        make: makes an environment.
        tasks: what to play.
        policy: replies for the agents of the seats.
        teacher: judges each reply; None plays without help.
        parallel: episodes in progress at one time; finished ones are replaced from `tasks`.
        lanes: groups of them; while the teacher judges one, the policy replies for another.
        keep_snapshots: the first so many tasks keep their moments for a replay.
        rival: replies for the others in self-play; without one, `policy` does.
        on_finished: called with each finished episode.

    Returns:
        The episodes in the order of `tasks`.

    Raises:
        TeacherOutage: the teacher cannot judge; what was played is lost.
    """
    waiting = list(enumerate(tasks))[::-1]
    count = min(parallel, len(tasks))
    free = [[make() for _ in range(lane, count, lanes)] for lane in range(lanes)]
    playing: list[dict[int, Table]] = [{} for _ in range(lanes)]
    begun: list[Round | None] = [None] * lanes
    finished: dict[int, Episode] = {}
    with judging(teacher, lanes) as judge:
        # Rounds begin and end in a fixed order, whatever takes longer: so the same tokens are drawn each time.
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
                begun[lane] = begin_round(tables, policy, rival, judge) if tables else None
    return [finished[number] for number in range(len(tasks))]


def play_round(playing: dict[int, Table], policy: Policy, rival: Policy | None, teacher: Teacher) -> None:
    """One round at every table: each agent that is prompted replies once."""
    with judging(teacher, lanes=1) as judge:
        begin_round(playing, policy, rival, judge).end(keep=0)


@dataclass(frozen=True, slots=True)
class Round:
    """The replies of one round, while they are judged."""

    tables: Sequence[tuple[int, Table, int]]
    """Number, table, and how many of the attempts are its own: they stand in the order of the tables."""
    attempts: list[Attempt]
    generations: list[Generation]
    verdicts: Callable[[], list[Verdict]]
    """Waits for the teacher."""

    def end(self, keep: int) -> None:
        """Wait for the verdicts and execute them; the tables with a number below `keep` keep the moment."""
        verdicts, start = self.verdicts(), 0
        for number, table, count in self.tables:
            here = slice(start, start + count)
            start = here.stop
            if number < keep:
                table.snapshots.append(_moment(table.environment, self.attempts[here], verdicts[here]))
            table.play(self.attempts[here], self.generations[here], verdicts[here])
            if number < keep and table.environment.done:
                table.snapshots.append(_moment(table.environment, [], []))


Judge = Callable[[Sequence[tuple[TextEnvironment, Attempt]]], Callable[[], list[Verdict]]]
"""Takes attempts with their games, and returns a function that waits for the verdicts."""


def begin_round(playing: dict[int, Table], policy: Policy, rival: Policy | None, judge: Judge) -> Round:
    """Each agent that is prompted replies once, and the judge begins."""
    asked = [(number, table, table.environment.prompts()) for number, table in sorted(playing.items())]
    games = [table.environment for _, table, prompts in asked for _ in prompts]
    prompts = [prompt for _, _, some in asked for prompt in some]
    generations = _generations(prompts, policy, rival)
    attempts = [Attempt.of(prompt, generation.text) for prompt, generation in zip(prompts, generations, strict=True)]
    return Round(
        tables=[(number, table, len(some)) for number, table, some in asked],
        attempts=attempts,
        generations=generations,
        verdicts=_judged(list(zip(games, attempts, strict=True)), judge),
    )


def _generations(prompts: Sequence[Prompt], policy: Policy, rival: Policy | None) -> list[Generation]:
    """One for each prompt: those of rivals by `rival`, if there is one."""
    if rival is None:
        return policy(prompts)
    own, others = ([prompt for prompt in prompts if prompt.rival is side] for side in (False, True))
    drawn = {False: iter(policy(own) if own else ()), True: iter(rival(others) if others else ())}
    return [next(drawn[prompt.rival]) for prompt in prompts]


def _judged(asked: Sequence[tuple[TextEnvironment, Attempt]], judge: Judge) -> Callable[[], list[Verdict]]:
    """Waits for the judge's verdicts; a rival's attempts are executed as they stand."""
    own = [(environment, attempt) for environment, attempt in asked if not attempt.prompt.rival]
    wait: Callable[[], list[Verdict]] = judge(own) if own else list

    def verdicts() -> list[Verdict]:
        found = iter(wait())
        return [_as_it_stands(*pair) if pair[1].prompt.rival else next(found) for pair in asked]

    return verdicts


@contextmanager
def judging(teacher: Teacher | None, lanes: int) -> Iterator[Judge]:
    """A judge: with one lane it works at once, with more in threads beside the one that draws replies."""
    if teacher is None:
        yield lambda asked: lambda: [_as_it_stands(environment, attempt) for environment, attempt in asked]
    elif lanes == 1:
        yield lambda asked: lambda: teacher.judge([attempt for _, attempt in asked])
    else:
        with ThreadPoolExecutor(lanes, "judge") as thread:
            yield lambda asked: thread.submit(teacher.judge, [attempt for _, attempt in asked]).result


def _as_it_stands(environment: TextEnvironment, attempt: Attempt) -> Verdict:
    """Without a teacher: a legal action is executed, anything else is idleness, also no action where any is legal."""
    refusal = environment.rules.refusal(attempt.prompt.observation, attempt.reply.action)
    if refusal is None and not attempt.reply.action:
        refusal = Refusal("unknown", WITHOUT_ACTION)
    return Verdict(
        valid=refusal is None,
        action=environment.idle if refusal else attempt.reply.action,
        penalty=0.0,
        critique=refusal.sentence if refusal else "",
        reasoning="",
        source="none",
    )


def _moment(
    environment: TextEnvironment, attempts: Sequence[Attempt], verdicts: Sequence[Verdict]
) -> dict[str, object]:
    """The truth before a round, with the replies in it and how they were judged."""
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
