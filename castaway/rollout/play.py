"""Playing many episodes side by side: one batch holds the replies of all agents of all episodes.

Without a teacher what is not a legal action counts as the environment's idle action; with one, its verdict is executed.
In self-play the others' prompts go to a second policy, all of a round in one batch as well; no teacher helps them, and
their turns are executed but not recorded.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from castaway.rollout.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import Prompt, Refusal, TextEnvironment
from castaway.tasks.verdict import WITHOUT_ACTION, Attempt, Teacher, Verdict


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
class ActiveEpisode:
    """One episode in progress."""

    environment: TextEnvironment
    task_id: int
    seat: str
    trajectories: dict[str, Trajectory] = field(default_factory=dict)
    """By agent; opponents have none."""
    played: list[dict[str, str]] = field(default_factory=list)
    """The executed actions of each round: with the task id, they are the whole state of the game."""
    snapshots: list[dict[str, object]] = field(default_factory=list)

    def play(self, attempts: Sequence[Attempt], generations: Sequence[Generation], verdicts: Sequence[Verdict]) -> None:
        """Execute one round and record it."""
        for attempt, generation, verdict in zip(attempts, generations, verdicts, strict=True):
            prompt = attempt.prompt
            if prompt.opponent:
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

    def finished(self) -> Episode:
        """The record of the episode, once it has ended."""
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
    groups: int = 1,
    keep_snapshots: int = 0,
    opponent: Policy | None = None,
    on_finished: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Play an episode for each (task id, seat); returns them in that order.

    Args:
        parallel: episodes in progress at one time; finished ones are replaced from `tasks`.
        groups: into which they are split; while the teacher judges one, the policy replies for another.
        keep_snapshots: number of tasks, from the first on, that keep their moments for a replay.
        opponent: replies for the others in self-play; without one, `policy` does.

    Raises:
        TeacherOutage: the teacher cannot judge; what was played is lost.
    """
    waiting = list(enumerate(tasks))[::-1]
    count = min(parallel, len(tasks))
    free = [[make() for _ in range(group, count, groups)] for group in range(groups)]
    playing: list[dict[int, ActiveEpisode]] = [{} for _ in range(groups)]
    begun: list[Round | None] = [None] * groups
    finished: dict[int, Episode] = {}
    with judging(teacher, groups) as judge:
        # Rounds begin and end in a fixed order, whatever takes longer: so the same tokens are drawn each time.
        while waiting or any(playing):
            for group, active in enumerate(playing):
                if (current := begun[group]) is not None:
                    current.end(keep_snapshots)
                for number in [number for number, episode in active.items() if episode.environment.done]:
                    free[group].append(active[number].environment)
                    finished[number] = active.pop(number).finished()
                    on_finished(finished[number])
                while waiting and free[group]:
                    number, (task_id, seat) = waiting.pop()
                    active[number] = ActiveEpisode(free[group].pop(), task_id, seat)
                    active[number].environment.reset(task_id, seat)
                begun[group] = begin_round(active, policy, opponent, judge) if active else None
    return [finished[number] for number in range(len(tasks))]


def play_round(
    active: dict[int, ActiveEpisode], policy: Policy, opponent: Policy | None, teacher: Teacher | None
) -> None:
    """One round of every episode: each agent that is prompted replies once."""
    with judging(teacher, groups=1) as judge:
        begin_round(active, policy, opponent, judge).end(keep=0)


@dataclass(frozen=True, slots=True)
class Round:
    """The replies of one round, while they are judged."""

    episodes: Sequence[tuple[int, ActiveEpisode, int]]
    """Number, episode, and how many of the attempts are its own: they stand in the order of the episodes."""
    attempts: list[Attempt]
    generations: list[Generation]
    verdicts: Callable[[], list[Verdict]]
    """Waits for the teacher."""

    def end(self, keep: int) -> None:
        """Wait for the verdicts and execute them; the episodes with a number below `keep` keep the moment."""
        verdicts, start = self.verdicts(), 0
        for number, episode, count in self.episodes:
            own = slice(start, start + count)
            start = own.stop
            if number < keep:
                episode.snapshots.append(_moment(episode.environment, self.attempts[own], verdicts[own]))
            episode.play(self.attempts[own], self.generations[own], verdicts[own])
            if number < keep and episode.environment.done:
                episode.snapshots.append(_moment(episode.environment, [], []))


Judge = Callable[[Sequence[tuple[TextEnvironment, Attempt]]], Callable[[], list[Verdict]]]
"""Takes attempts with their games, and returns a function that waits for the verdicts."""


def begin_round(active: dict[int, ActiveEpisode], policy: Policy, opponent: Policy | None, judge: Judge) -> Round:
    """Each agent that is prompted replies once, and the judge begins."""
    asked = [(number, episode, episode.environment.prompts()) for number, episode in sorted(active.items())]
    games = [episode.environment for _, episode, prompts in asked for _ in prompts]
    prompts = [prompt for _, _, some in asked for prompt in some]
    generations = _generations(prompts, policy, opponent)
    attempts = [Attempt.of(prompt, generation.text) for prompt, generation in zip(prompts, generations, strict=True)]
    return Round(
        episodes=[(number, episode, len(some)) for number, episode, some in asked],
        attempts=attempts,
        generations=generations,
        verdicts=_judged(list(zip(games, attempts, strict=True)), judge),
    )


def _generations(prompts: Sequence[Prompt], policy: Policy, opponent: Policy | None) -> list[Generation]:
    """One for each prompt: those of opponents by `opponent`, if there is one."""
    if opponent is None:
        return policy(prompts)
    own, others = ([prompt for prompt in prompts if prompt.opponent is side] for side in (False, True))
    drawn = {False: iter(policy(own) if own else ()), True: iter(opponent(others) if others else ())}
    return [next(drawn[prompt.opponent]) for prompt in prompts]


def _judged(asked: Sequence[tuple[TextEnvironment, Attempt]], judge: Judge) -> Callable[[], list[Verdict]]:
    """Waits for the judge's verdicts; an opponent's attempts are executed as they stand."""
    own = [(environment, attempt) for environment, attempt in asked if not attempt.prompt.opponent]
    wait: Callable[[], list[Verdict]] = judge(own) if own else list

    def verdicts() -> list[Verdict]:
        answered = iter(wait())
        return [_as_it_stands(*pair) if pair[1].prompt.opponent else next(answered) for pair in asked]

    return verdicts


@contextmanager
def judging(teacher: Teacher | None, groups: int) -> Iterator[Judge]:
    """A judge: with one group it works at once, with more in threads next to the one that draws replies."""
    if teacher is None:
        yield lambda asked: lambda: [_as_it_stands(environment, attempt) for environment, attempt in asked]
    elif groups == 1:
        yield lambda asked: lambda: teacher.judge([attempt for _, attempt in asked])
    else:
        with ThreadPoolExecutor(groups, "judge") as thread:
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
