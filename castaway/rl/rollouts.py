"""The rollouts of PPO: who plays what, and what is learned from in each step.

A step plays whole episodes or, with `turns_per_step`, games that continue from step to step.

With `async_rollout`, rollout n + 1 is drawn while update n is made, by a twin of the actor in a thread of its own: the
device learns while a served teacher judges. What is learned from is then one update old (one step off-policy, as in
Noukhovitch et al. 2024, "Asynchronous RLHF", arXiv:2410.18252). In float32 PPO's ratio is against the log-probabilities
that were recorded when the tokens were drawn, so it begins away from 1; where the trainer reads the replies anew, it
begins at 1 and importance weights carry the rest (`rewards.truncated_importance`). Which thread is faster does not
change what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from castaway.config.ppo import PpoParams
from castaway.rl.episode_source import EpisodeSource, Report
from castaway.rl.ranks import EvenDraws, Ranks, attempted
from castaway.rollout.play import ActiveEpisode, Policy, play_episodes, play_round
from castaway.rollout.policies import FrozenPool, Sampler
from castaway.rollout.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import TextEnvironment
from castaway.tasks.verdict import Teacher


@dataclass(slots=True)
class Batch:
    """The result of one rollout: what PPO learns from in one step."""

    trajectories: list[Trajectory] = field(default_factory=list)
    """Complete turns, none of which was in an earlier batch."""
    finished: list[Episode] = field(default_factory=list)
    """Episodes that ended in this rollout; with `turns_per_step` without their turns, which batches were handed."""
    numbers: list[int] = field(default_factory=list)
    """One for each turn; over all processes they go from 0 without gaps, in the order in which one process would have
    played."""

    @property
    def turns(self) -> list[Turn]:
        """The turns of all trajectories, one after another."""
        return [turn for trajectory in self.trajectories for turn in trajectory.turns]

    def copy(self) -> Batch:
        """One that neither play nor learning changes."""
        episodes = [replace(one, trajectories=[part.copy() for part in one.trajectories]) for one in self.finished]
        return Batch([trajectory.copy() for trajectory in self.trajectories], episodes, list(self.numbers))


class Rollouts:
    """Plays this process's share of each step's episodes, and tells the source how everybody's went."""

    def __init__(
        self,
        make: Callable[[], TextEnvironment],
        source: EpisodeSource,
        sampler: Sampler,
        teacher: Teacher,
        params: PpoParams,
        ranks: Ranks,
        opponent: FrozenPool | None = None,
    ) -> None:
        """`opponent` replies for the others in self-play; None where no stage of the curriculum has any."""
        self.source, self.sampler, self.teacher = source, sampler, teacher
        self._make, self._params, self._ranks, self._opponent = make, params, ranks, opponent
        self._draws = EvenDraws(source, ranks)
        parallel = len(ranks.share(range(params.rollout.episodes_per_step)))
        self._continuing = ContinuingRollout(make, self._draws.draw, sampler, teacher, parallel, opponent)
        self._ready: Batch | None = None
        """Played while the last update was made."""

    @contextmanager
    def next(self, step: int) -> Iterator[Batch]:
        """Context with the rollout of a step; with `async_rollout`, the next one is played while the context lasts.

        CastawayError if the teacher or the sampler of some process failed: every process raises it.
        """
        self.sampler.refresh()
        if self._opponent:
            self._opponent.draw(step)
        batch, self._ready = self._ready or self._played_by_all(self.play), None
        # Before the next rollout is drawn, which may be played meanwhile.
        self.report(batch.finished)
        if self._params.rollout.async_rollout and step + 1 < self._params.steps:
            with ThreadPoolExecutor(1, "rollout") as thread:
                playing = thread.submit(self.play)
                yield batch
                self._ready = self._played_by_all(playing.result)
        else:
            yield batch

    def play(self) -> Batch:
        """This process's part of one rollout."""
        params = self._params.rollout
        if params.turns_per_step is not None:
            return self._continuing.play(-(-params.turns_per_step // self._ranks.count))
        drawn = [self.source.draw(params.group_size) for _ in range(params.episodes_per_step // params.group_size)]
        drawn.sort(key=lambda task: task[1])  # seats of unlike length are shared evenly among processes
        tasks = self._ranks.share([task for task in drawn for _ in range(params.group_size)])
        episodes = play_episodes(
            self._make,
            tasks,
            self.sampler,
            self.teacher,
            parallel=len(tasks),
            groups=params.rollout_groups,
            opponent=self._opponent,
        )
        return Batch([trajectory for episode in episodes for trajectory in episode.trajectories], episodes)

    def _played_by_all(self, play: Callable[[], Batch]) -> Batch:
        """The rollout that `play` makes or waits for, once every process has its own and has drawn as many episodes."""
        played, fault = attempted(play)
        batch = played or Batch()
        # Turns in each of the parts that one process alone would have played in turn with those of the others.
        sizes = [sum(len(part.turns) for part in episode.trajectories) for episode in batch.finished]
        if self._params.rollout.turns_per_step is not None:
            sizes = [len(trajectory.turns) for trajectory in batch.trajectories]
        everybody = self._ranks.gather((self._draws.count, sizes), fault)
        batch.numbers = self._ranks.numbers([theirs for _, theirs in everybody])
        self._draws.even([drawn for drawn, _ in everybody])
        return batch

    def report(self, episodes: Sequence[Episode]) -> None:
        """Tell the source how everybody's episodes went; what the teacher helped with is no success of the student."""
        mine = [Report((e.task_id, e.seat), e.unaided_success, e.score) for e in episodes]
        self.source.learn(report for part in self._ranks.gather(mine) for report in part)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on, sharing nothing that changes; every process must ask for it."""
        return {
            "source": self._ranks.gather(self.source.state()),
            "games": self._ranks.gather(self._continuing.state()),
            "ready": self._ranks.gather(self._ready and self._ready.copy()),
            "pool": self._opponent.state() if self._opponent else [],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        rank = self._ranks.rank
        self.source.load_state(state["source"][rank])
        self._continuing.load_state(state["games"][rank])
        ready: Batch | None = state["ready"][rank]
        self._ready = ready and ready.copy()
        if self._opponent:
            self._opponent.load_state(state["pool"])


@dataclass(slots=True)
class ContinuingRollout:
    """Episodes that go on from one step to the next: where one ends, another begins.

    Whole episodes make steps of uneven size, and wait for the longest. Here a step ends after a number of turns,
    wherever the episodes are. An agent's last turn is not complete by then: what is paid until its next one still
    belongs to it. It waits for the next step, and its value, which the critic gave before its first token, is what the
    turns before it are bootstrapped from. Without a critic at the sampler, the trainer reads that value.
    """

    make: Callable[[], TextEnvironment]
    draw: Callable[[], tuple[int, str]]
    """Gives the next task id and seat."""
    policy: Policy
    """Replies for the agents of the seats."""
    teacher: Teacher
    parallel: int
    """Episodes in progress at one time."""
    opponent: Policy | None = None
    """Replies for the others in self-play; without one, `policy` does."""
    _active: list[ActiveEpisode] = field(default_factory=list, init=False)

    def play(self, turns: int) -> Batch:
        """Play rounds until at least `turns` turns are complete, and hand them out."""
        batch = Batch()
        while len(self._active) < self.parallel:
            self._active.append(self._begin(self.make()))
        while len(batch.turns) + sum(map(_waiting, self._active)) < turns:
            play_round(dict(enumerate(self._active)), self.policy, self.opponent, self.teacher)
            for number, episode in enumerate(self._active):
                if episode.environment.done:
                    batch.trajectories += _complete(episode, ended=True)
                    batch.finished.append(episode.finished())
                    self._active[number] = self._begin(episode.environment)
        for episode in self._active:
            batch.trajectories += _complete(episode, ended=False)
        return batch

    def _begin(self, environment: TextEnvironment) -> ActiveEpisode:
        task_id, seat = self.draw()
        environment.reset(task_id, seat)
        return ActiveEpisode(environment, task_id, seat)

    def state(self) -> list[dict[str, Any]]:
        """All that is needed to go on: a game is its task id and the actions that were executed in it."""
        return [
            {
                "task_id": episode.task_id,
                "seat": episode.seat,
                "played": list(episode.played),
                "trajectories": {agent: whole.copy() for agent, whole in episode.trajectories.items()},
            }
            for episode in self._active
        ]

    def load_state(self, state: list[dict[str, Any]]) -> None:
        """Play the saved actions again, and go on from there."""
        self._active = []
        for saved in state:
            environment = self.make()
            environment.reset(saved["task_id"], saved["seat"])
            trajectories = {agent: whole.copy() for agent, whole in saved["trajectories"].items()}
            episode = ActiveEpisode(environment, saved["task_id"], saved["seat"], trajectories)
            for actions in saved["played"]:
                environment.prompts()
                environment.step(actions)
                episode.played.append(actions)
            self._active.append(episode)


def _waiting(episode: ActiveEpisode) -> int:
    """Turns of an episode that are complete and were not handed out."""
    return sum(len(whole.turns) - 1 for whole in episode.trajectories.values())


def _complete(episode: ActiveEpisode, ended: bool) -> list[Trajectory]:
    """The complete turns of an episode, which are handed out."""
    parts = []
    for whole in episode.trajectories.values():
        if complete := len(whole.turns) - (not ended):
            part = whole.hand_out(complete)
            if not ended:
                after = whole.turns[0]
                part.bootstrap = after.values[0] if after.values else 0.0
                part.following = None if after.values else (after.prompt_tokens, after.reply_tokens[:1])
            parts.append(part)
    return parts
