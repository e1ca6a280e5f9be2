"""A taskset with an environment of its own that talks for several turns: guess the number; and one that fails."""

from collections.abc import Iterator
from itertools import count

import verifiers.v1 as vf


class HigherData(vf.TaskData):
    secret: int


class HigherTask(vf.Task[HigherData]):
    pass


class HigherConfig(vf.TasksetConfig):
    broken: bool = False


class HigherEnvConfig(vf.EnvConfig):
    guesser: vf.AgentConfig = vf.AgentConfig()
    judge: vf.AgentConfig = vf.AgentConfig()


class HigherEnv(vf.Env[HigherEnvConfig]):
    async def run(self, task, agents):
        if self.config.taskset.broken:
            raise ValueError("out of numbers")
        total = 0.0
        async with agents.guesser.interaction(task) as talk:
            segment = await talk.turn("guess from 0 to 9")
            while not segment.terminated and segment.last_reply != str(task.data.secret):
                total -= 0.1
                segment = await talk.turn("another")
            total += not segment.terminated
        talk.trace.record_reward("guessed", total)
        verdict = await agents.judge.run(vf.Task(vf.TaskData(prompt="was it good?")))
        verdict.record_reward("kind", float(verdict.last_reply == "yes"))


class HigherTaskset(vf.Taskset[HigherTask, HigherConfig]):
    INFINITE = True

    def load(self) -> Iterator[HigherTask]:
        for number in count():
            yield HigherTask(HigherData(secret=number % 10), self.config.task)


__all__ = ["HigherEnv", "HigherTaskset"]
