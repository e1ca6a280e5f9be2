"""A taskset as `vf-init` lays it out: sums with one right answer."""

import verifiers.v1 as vf


class SumsData(vf.TaskData):
    answer: int


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == str(self.data.answer))


class SumsConfig(vf.TasksetConfig):
    numbers: int = 6


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        pairs = [(a, b) for a in range(self.config.numbers) for b in range(self.config.numbers)]
        return [
            SumsTask(SumsData(prompt=f"{a} + {b}?", system_prompt="Add.", answer=a + b), self.config.task)
            for a, b in pairs
        ]


__all__ = ["SumsTaskset"]
