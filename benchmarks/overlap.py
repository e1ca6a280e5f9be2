"""PPO's step with a teacher that takes its time, beside the step without one and beside the teacher's work alone.

If neither waited for the other, a step would take as long as the larger of the two.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from benchmarks.step_share import trainer_of
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.rl.ppo import PpoTrainer
from castaway.tasks.registry import task_of
from castaway.teacher.base import Teacher
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.inspection import distinct_attempts
from castaway.teacher.rules import RulesTeacher
from castaway.teacher.served import Conduct, ServedTeacher

SHARES = (1.0, 2.0)
"""How long the teacher takes for a step's questions, in steps without it."""
OPEN = 64
"""Questions at one time."""


def overlap_table(params: Params, rounds: int) -> str:
    """Medians of `rounds` steps."""
    alone, turns = steps(params, RulesTeacher(task_of(params, "marooned").make().rules), rounds, ahead=False)
    rows = []
    for share in SHARES:
        with patient(share * alone / turns) as url:
            seconds = judged(params, url, turns)
            for ahead in (False, True):
                teacher = served(params, url)
                both, _ = steps(params, teacher, rounds, ahead=ahead)
                teacher.close()
                way = "ahead, two lanes" if ahead else "one after the other"
                cells = [f"{value:.2f}" for value in (alone, seconds, both, both / max(alone, seconds))]
                rows.append([way, *cells])
    names = ["rollouts", "step without, s", "teacher alone, s", "together, s", "of the larger"]
    head = f"{turns} turns a step, {params.ppo.episodes_per_step} episodes; medians of {rounds} steps."
    return f"{head}\n\n{table(names, rows)}"


def steps(params: Params, teacher: Teacher, rounds: int, ahead: bool) -> tuple[float, int]:
    """Seconds of a step, and its turns."""
    # The first warms up, and nothing is played ahead in the last.
    many = rounds + 2
    settings = {"ahead": ahead, "lanes": 2 if ahead else 1, "turns_per_step": None, "steps": many}
    changed = params.model_copy(update={"ppo": params.ppo.model_copy(update=settings)})
    trainer: PpoTrainer = trainer_of(changed, None, teacher)
    found, turns = [], 0
    for _ in range(many - 1):
        began = perf_counter()
        turns = int(trainer.step()["turns"])
        found.append(perf_counter() - began)
    return median(found[1:]), turns


def judged(params: Params, url: str, count: int) -> float:
    """Seconds that the teacher takes for so many questions, all of them asked at once."""
    attempts = distinct_attempts(task_of(params, "marooned").make(), count)
    teacher = served(params, url)
    began = perf_counter()
    teacher.judge(attempts)
    teacher.close()
    return perf_counter() - began


def served(params: Params, url: str) -> ServedTeacher:
    """A teacher behind the server at `url`."""
    rules = task_of(params, "marooned").make().rules
    return ServedTeacher("marooned", rules, Endpoint(url, "teacher", concurrency=OPEN), Conduct())


@contextmanager
def patient(seconds: float) -> Iterator[str]:
    """A server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.patient_server", str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.kill()
