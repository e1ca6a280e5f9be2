"""The source of training episodes: a curriculum, and failures that are played again.

Several processes that train together hold the same state: each receives the reports of all finished episodes, of any
process, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from castaway.config.ppo import ReplayParams
from castaway.rl.curriculum import Curriculum
from castaway.rl.failures import FailureBuffer, Task
from castaway.tasks.environment import CurriculumStage, is_held_out


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


class TaskSource:
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
        """Begin with the first stage and no failures.

        Args:
            stages: the curriculum, easy stages first.
            replay: how failures come back.
            seed: decides all draws.
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
        self._drawn = 0
        """Draws that were no replays: seats take turns by it."""
        self._playing: dict[Task, list[int | None]] = {}
        """Episodes that were drawn and have not ended, each with the stages that it was drawn for."""

    def draw(self, times: int = 1) -> Task:
        """A training id and a seat, to be played `times`: a failure in a share of the draws, else one of the stage.

        Failures that are being played are not drawn again, so that no step plays one episode many times. Without
        replays, the ids are the stream of `Random(seed).choice`.

        Raises:
            ValueError: the stage holds an id that is kept for evaluation.
        """
        if self._share and self._random.random() < self._share:
            failed = self.failures.draw(self._random, self._playing)
            if failed is not None:
                self._playing[failed] = [None] * times
                return failed
        stages = self.curriculum.stages
        number = self.curriculum.number if self._in_order else self._random.randrange(len(stages))
        stage = stages[number]
        task = self._random.choice(stage.task_ids), stage.seats[self._drawn % len(stage.seats)]
        if is_held_out(task[0]):
            raise ValueError(f"the stage {stage.name} holds the id {task[0]}, which is kept for evaluation")
        self._drawn += 1
        self._playing.setdefault(task, []).extend([number] * times)
        return task

    def withdraw(self, task: Task) -> None:
        """Take a draw back: nobody plays the episode."""
        self._end(task, -1)

    def _end(self, task: Task, which: int) -> int | None:
        """Forget the first (0) or the last (-1) of the draws of an episode; returns its stage, None of a replay."""
        drawn = self._playing.get(task, [None])
        stage = drawn.pop(which)
        if not drawn:
            self._playing.pop(task, None)
        return stage

    def report(self, task: Task, success: bool, score: float) -> Report:
        """The report on an episode that this process drew and that has ended; it is to be given to `learn`.

        Raises:
            ValueError: the task was not drawn here, or has been learned from.
        """
        if task not in self._playing:
            raise ValueError(f"episode {task} was not drawn here, or has been reported before")
        return Report(task, success, score)

    def learn(self, reports: Iterable[Report]) -> None:
        """Take the reports of all processes, in the same order on each of them."""
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
        return {
            **({"stage": float(self.curriculum.number + 1)} if self._in_order else {}),
            **({} if rate is None else {"stage_success_rate": rate}),
            "failures": float(len(self.failures)),
            "mastered": float(self.failures.mastered),
        }

    def table(self) -> dict[str, dict[str, dict[str, float]]]:
        """By kind and seat: episodes that were no replays, and the means of success and score."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for (kind, seat), tally in sorted(self.tallies.items()):
            means = {"success_rate": tally.successes / tally.played, "mean_score": tally.score / tally.played}
            rounded = {name: round(value, 6) for name, value in means.items()}
            found.setdefault(kind, {})[seat] = {"episodes": tally.played, **rounded}
        return found

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint: what is the same in all processes (`shared`), and what is this one's (`own`)."""
        tallies = [(*key, tally.played, tally.successes, tally.score) for key, tally in self.tallies.items()]
        return {
            "shared": {
                "curriculum": self.curriculum.state(),
                "failures": self.failures.state(),
                "tallies": tallies,
            },
            "own": {
                "random": self._random.getstate(),
                "drawn": self._drawn,
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
        self._drawn = own["drawn"]
        self._playing = {(task_id, seat): list(stages) for task_id, seat, stages in own["playing"]}
