"""Rollouts of a fixed number of turns: episodes go on from one to the next.

Whole episodes make steps of uneven size, and wait for the longest. Here a step ends after so many turns, wherever the
episodes are. An agent's last turn is not complete by then: what is paid until its next one still belongs to it. So it
waits for the next step, and its value, which the critic gave before its first token, is what the turns before it are
bootstrapped from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from castaway.rl.rollout import Policy, Table, play_round
from castaway.rl.trajectory import Episode, Trajectory
from castaway.tasks.environment import TextEnvironment
from castaway.teacher.base import Teacher


@dataclass(slots=True)
class Batch:
    """The result of one rollout: what PPO learns from in one step."""

    trajectories: list[Trajectory] = field(default_factory=list)
    """Complete turns, none of which was in an earlier batch."""
    finished: list[Episode] = field(default_factory=list)
    """Episodes that ended in this rollout, with all of their turns."""


class ContinuingRollout:
    """Tables that stay in use from step to step: where an episode ends, the next one begins."""

    def __init__(
        self,
        make: Callable[[], TextEnvironment],
        draw: Callable[[], tuple[int, str]],
        policy: Policy,
        teacher: Teacher,
        tables: int,
        rival: Policy | None = None,
    ) -> None:
        """No episode has begun yet.

        Args:
            make: makes an environment.
            draw: gives the next task id and seat.
            policy: replies for the agents of the seats.
            teacher: judges each reply.
            tables: episodes in progress at one time.
            rival: replies for the others in self-play; without one, `policy` does.
        """
        self._make, self._draw, self._policy, self._teacher = make, draw, policy, teacher
        self._rival = rival
        self._count = tables
        self._tables: list[Table] = []
        self._learned: list[dict[str, int]] = []
        """For each table, how many of each agent's turns were handed out already."""

    def play(self, turns: int) -> Batch:
        """Play rounds until at least so many turns are complete, and hand them out."""
        batch = Batch()
        while len(self._tables) < self._count:
            self._tables.append(self._next(self._make()))
            self._learned.append({})
        while _turns(batch.trajectories) + sum(map(self._waiting, range(self._count))) < turns:
            play_round(dict(enumerate(self._tables)), self._policy, self._rival, self._teacher)
            for number, table in enumerate(self._tables):
                if table.environment.done:
                    batch.trajectories += self._complete(number, ended=True)
                    batch.finished.append(table.episode())
                    self._tables[number] = self._next(table.environment)
                    self._learned[number] = {}
        for number in range(self._count):
            batch.trajectories += self._complete(number, ended=False)
        return batch

    def _waiting(self, number: int) -> int:
        """How many complete turns a table holds."""
        agents = self._tables[number].trajectories
        return sum(len(whole.turns) - 1 - self._learned[number].get(agent, 0) for agent, whole in agents.items())

    def _next(self, environment: TextEnvironment) -> Table:
        task_id, seat = self._draw()
        environment.reset(task_id, seat)
        return Table(environment, task_id, seat)

    def _complete(self, number: int, ended: bool) -> list[Trajectory]:
        """The complete turns of a table that were not handed out before."""
        found, learned = [], self._learned[number]
        for agent, whole in self._tables[number].trajectories.items():
            start, end = learned.get(agent, 0), len(whole.turns) - (not ended)
            if end > start:
                bootstrap = 0.0 if ended else whole.turns[end].values[0]
                found.append(
                    Trajectory(
                        task_id=whole.task_id,
                        agent=agent,
                        role=whole.role,
                        turns=whole.turns[start:end],
                        bootstrap=bootstrap,
                    )
                )
                learned[agent] = end
        return found

    def state(self) -> list[dict[str, Any]]:
        """All that is needed to go on: a game is its task id and the actions that were executed in it."""
        return [
            {
                "task_id": table.task_id,
                "seat": table.seat,
                "played": list(table.played),
                "trajectories": dict(table.trajectories),
                "learned": dict(learned),
            }
            for table, learned in zip(self._tables, self._learned, strict=True)
        ]

    def load_state(self, state: list[dict[str, Any]]) -> None:
        """Play the saved actions again, and go on from there."""
        self._tables, self._learned = [], []
        for saved in state:
            environment = self._make()
            environment.reset(saved["task_id"], saved["seat"])
            table = Table(environment, saved["task_id"], saved["seat"], saved["trajectories"])
            for actions in saved["played"]:
                environment.prompts()
                environment.step(actions)
                table.played.append(actions)
            self._tables.append(table)
            self._learned.append(saved["learned"])


def _turns(trajectories: Sequence[Trajectory]) -> int:
    return sum(len(trajectory.turns) for trajectory in trajectories)
