"""The source of training episodes: a curriculum, and failures that are played again.

The curriculum moves on when enough of the last episodes were successes, and back when too few were; what a stage
consists of is up to the task (`castaway.tasks.environment.CurriculumStage`). Failed episodes come back until they are
mastered: the lower the score was, the more often.

Several processes that train together hold the same state: each receives the reports of all finished episodes, of any
process, in the same order.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from castaway.config.ppo import ReplayParams
from castaway.tasks.environment import SELF_PLAY, CurriculumStage, is_held_out

Task = tuple[int, str]
"""A task id, and the seat that was played."""


class Curriculum:
    """Which stage is played now, and how its last episodes went."""

    def __init__(self, stages: Sequence[CurriculumStage]) -> None:
        """Begin with the first stage; ValueError if there is none, or one whose floor is above its threshold."""
        if not stages:
            raise ValueError("a curriculum needs a stage")
        for stage in stages:
            if stage.floor > stage.threshold or not stage.seats or not len(stage.task_ids):
                raise ValueError(f"the stage {stage.name} has no ids, no seats, or a floor above its threshold")
        self.stages = tuple(stages)
        self.number = 0
        """The stage that is played now, from 0."""
        self._window: list[bool] = []

    @property
    def stage(self) -> CurriculumStage:
        """What is played now."""
        return self.stages[self.number]

    @property
    def success_rate(self) -> float | None:
        """Share of successes in the window, full or not; None while it is empty."""
        return sum(self._window) / len(self._window) if self._window else None

    def report(self, number: int, success: bool) -> None:
        """Count an episode that was drawn for the stage `number` and has ended; those of other stages are ignored.

        If the share of successes in a full window is at the threshold or above, the next stage begins, if there is one;
        if it is below the floor, the stage before. A stage begins with an empty window.
        """
        if number != self.number:
            return
        stage = self.stage
        self._window = [*self._window, success][-stage.window :]
        if len(self._window) < stage.window:
            return
        share = sum(self._window) / stage.window
        entered = number + (share >= stage.threshold) - (share < stage.floor)
        if entered != number and 0 <= entered < len(self.stages):
            self.number, self._window = entered, []

    def state(self) -> dict[str, Any]:
        """The stage and its window, to go on from."""
        return {"stage": self.number, "window": list(self._window)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned; ValueError if that is of a curriculum with more stages."""
        if state["stage"] >= len(self.stages):
            raise ValueError(f"the state is in stage {state['stage']}, and there are {len(self.stages)} stages")
        self.number = state["stage"]
        self._window = list(state["window"])


@dataclass(slots=True)
class _Failure:
    severity: float
    """1 - score, when it was last failed."""
    streak: int = 0
    """Successes since then."""


class FailureBuffer:
    """Failed episodes, each of them once, the oldest first."""

    def __init__(self, capacity: int, mastery: int) -> None:
        """Keep at most `capacity` failures; one leaves after `mastery` successes in a row, or for a newer one."""
        self._capacity, self._mastery = capacity, mastery
        self._kept: dict[Task, _Failure] = {}
        self.mastered = 0
        """Episodes that have left."""

    def __len__(self) -> int:
        return len(self._kept)

    def draw(self, random: Random, playing: Container[Task] = ()) -> Task | None:
        """One of the failures, with a chance in proportion to 1 - score; None if all there are stand in `playing`."""
        waiting = [(task, kept.severity) for task, kept in self._kept.items() if task not in playing]
        if not waiting:
            return None
        tasks, severities = zip(*waiting, strict=True)
        return tasks[random.choices(range(len(tasks)), severities)[0]]

    def report(self, task: Task, success: bool, score: float) -> None:
        """Take in an episode that has ended: a failure is kept, and one that was mastered is removed.

        A failure is drawn in proportion to 1 - score; ValueError if the score is not from 0 to 1.
        """
        if not 0 <= score <= 1:
            raise ValueError(f"the score of episode {task} is {score}, expected a number from 0 to 1")
        kept = self._kept.get(task)
        if not success and score < 1:
            if kept is None and len(self._kept) == self._capacity:
                del self._kept[next(iter(self._kept))]
            self._kept[task] = _Failure(1 - score)
        elif success and kept is not None:
            kept.streak += 1
            if kept.streak == self._mastery:
                del self._kept[task]
                self.mastered += 1

    def state(self) -> dict[str, Any]:
        """All that is kept, to go on from."""
        kept = [(*task, failure.severity, failure.streak) for task, failure in self._kept.items()]
        return {"kept": kept, "mastered": self.mastered}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned; of more than fit, the newest are kept."""
        rows = state["kept"][-self._capacity :]
        self._kept = {(task_id, seat): _Failure(severity, streak) for task_id, seat, severity, streak in rows}
        self.mastered = state["mastered"]


@dataclass(frozen=True, slots=True)
class Report:
    """How an episode went."""

    task: Task
    success: bool
    """Whether the student succeeded by itself."""
    score: float


@dataclass(slots=True)
class Tally:
    """Episodes of one kind in one seat; failures that were played again do not count."""

    played: int = 0
    successes: int = 0
    score: float = 0.0
    """The sum of the scores."""


class EpisodeSource:
    """Draws training episodes and learns from how they went."""

    def __init__(
        self,
        stages: Sequence[CurriculumStage],
        replay: ReplayParams,
        seed: int,
        main_seat: str,
        kind_of: Callable[[int], str] = lambda _: "",
        in_order: bool = True,
    ) -> None:
        """Begin with the first of the stages, easy ones first, and no failures.

        Args:
            main_seat: what success rates speak of.
            kind_of: under which name the figures of a task id are kept.
            in_order: stages follow one another; else each draw takes any of them.
        """
        self.curriculum = Curriculum(stages)
        self.failures = FailureBuffer(replay.capacity, replay.mastery)
        self.tallies: dict[tuple[str, str], Tally] = {}
        """By kind and seat."""
        self.main_seat = main_seat
        """The seat that success rates speak of."""
        self._share, self._random, self._kind_of, self._in_order = replay.share, Random(seed), kind_of, in_order
        self._owed: Counter[str] = Counter()
        """By how much each seat is behind its share of a stage's seats: episodes, times the number of those seats."""
        self._playing: dict[Task, list[int | None]] = {}
        """Episodes that were drawn and have not ended, each with the stages that it was drawn for."""

    @property
    def self_play(self) -> bool:
        """Whether a stage of the curriculum is played against earlier policies."""
        return any(SELF_PLAY in stage.seats for stage in self.curriculum.stages)

    def draw(self, times: int = 1) -> Task:
        """A training id and a seat, to be played `times`: a failure in a share of the draws, else one of the stage.

        Failures that are being played are not drawn again, so that no step plays one episode many times. ValueError if
        the stage holds an id that is kept for evaluation.
        """
        if self._share and self._random.random() < self._share:
            failed = self.failures.draw(self._random, self._playing)
            if failed is not None:
                self._playing[failed] = [None] * times
                self._count(failed[1], self.curriculum.stage, times)
                return failed
        stages = self.curriculum.stages
        number = self.curriculum.number if self._in_order else self._random.randrange(len(stages))
        stage = stages[number]
        # The seat that is furthest behind its share, replays counted, whatever the size of groups and steps.
        shares = Counter(stage.seats)
        seat = max(shares, key=lambda one: self._owed[one] + times * shares[one])
        task = self._random.choice(stage.task_ids), seat
        if is_held_out(task[0]):
            raise ValueError(f"the stage {stage.name} holds the id {task[0]}, which is kept for evaluation")
        self._count(seat, stage, times)
        self._playing.setdefault(task, []).extend([number] * times)
        return task

    def _count(self, seat: str, stage: CurriculumStage, times: int) -> None:
        """Count episodes in a seat of a stage. What a seat is owed has a limit, so that no stage makes up for long."""
        shares, seats = Counter(stage.seats), len(stage.seats)
        if seat in shares:
            for one, share in shares.items():
                owed = self._owed[one] + times * (share - seats * (one == seat))
                self._owed[one] = max(-(seats**2), min(seats**2, owed))

    def withdraw(self, task: Task) -> None:
        """Take a draw back: nobody plays the episode."""
        stage = self._end(task, -1)
        self._count(task[1], self.curriculum.stage if stage is None else self.curriculum.stages[stage], -1)

    def _end(self, task: Task, which: int) -> int | None:
        """Forget the first (0) or the last (-1) of the draws of an episode; returns its stage, None of a replay."""
        if task not in self._playing:
            raise ValueError(f"episode {task} was not drawn here, or has been reported before")
        drawn = self._playing[task]
        stage = drawn.pop(which)
        if not drawn:
            del self._playing[task]
        return stage

    def learn(self, reports: Iterable[Report]) -> None:
        """Take the reports of all processes on episodes that have ended, in the same order on each of them.

        ValueError if an episode was not drawn, or has been reported before.
        """
        for report in reports:
            stage = self._end(report.task, 0)
            self.failures.report(report.task, report.success, report.score)
            if stage is not None:
                if self._in_order:
                    self.curriculum.report(stage, report.success)
                tally = self.tallies.setdefault((self._kind_of(report.task[0]), report.task[1]), Tally())
                tally.played += 1
                tally.successes += report.success
                tally.score += report.score

    def metrics(self) -> dict[str, float]:
        """For the curves: the stage, from 1, its success rate once there is one, and how many failures wait."""
        rate = self.curriculum.success_rate
        figures = {"stage": float(self.curriculum.number + 1)} if self._in_order else {}
        figures |= {} if rate is None else {"stage_success_rate": rate}
        return {**figures, "failures": float(len(self.failures)), "mastered": float(self.failures.mastered)}

    def table(self) -> dict[str, dict[str, dict[str, float]]]:
        """By kind and seat: episodes that were no replays, and the means of success and score."""
        by_kind: dict[str, dict[str, dict[str, float]]] = {}
        for (kind, seat), tally in sorted(self.tallies.items()):
            means = {"success_rate": tally.successes / tally.played, "mean_score": tally.score / tally.played}
            rounded = {name: round(value, 6) for name, value in means.items()}
            by_kind.setdefault(kind, {})[seat] = {"episodes": tally.played, **rounded}
        return by_kind

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint: what is the same in all processes (`shared`), and what is this one's (`own`)."""
        tallies = [(*key, tally.played, tally.successes, tally.score) for key, tally in self.tallies.items()]
        return {
            "shared": {"curriculum": self.curriculum.state(), "failures": self.failures.state(), "tallies": tallies},
            "own": {
                "random": self._random.getstate(),
                "owed": dict(self._owed),
                "playing": [(*task, list(stages)) for task, stages in self._playing.items()],
            },
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        shared, own = state["shared"], state["own"]
        self.curriculum.load_state(shared["curriculum"])
        self.failures.load_state(shared["failures"])
        self.tallies = {(kind, seat): Tally(*sums) for kind, seat, *sums in shared["tallies"]}
        self._random.setstate(own["random"])
        self._owed = Counter(own["owed"])
        self._playing = {(task_id, seat): list(stages) for task_id, seat, stages in own["playing"]}


def stage_changes(history: Sequence[Mapping[str, float]]) -> list[tuple[int, int]]:
    """The steps, from 1, in which the curriculum moved, each with the stage that it entered, from 1.

    `history` holds the metrics of all steps, which have no stage where episodes are drawn from all stages alike.
    """
    stages = [1, *(int(values.get("stage", 1)) for values in history)]
    return [(step, now) for step, (before, now) in enumerate(pairwise(stages), start=1) if now != before]
