"""Measures how well a PPO step overlaps with a slow teacher.

The time of a step with the teacher is compared with the step alone and with the teacher alone. With perfect overlap, it
would equal the longer of the two.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from benchmarks.attempts import distinct_attempts
from benchmarks.step_share import trainer_of
from castaway.config.params import Params, merged
from castaway.config.ppo import PpoParams
from castaway.metrics.markdown import table
from castaway.rl.ppo import PpoTrainer
from castaway.tasks.registry import task_of
from castaway.tasks.verdict import Teacher
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.rules import RulesTeacher
from castaway.teacher.served import ServedOptions, ServedTeacher

SHARES = (1.0, 2.0)
"""Time of the teacher for the questions of one step, in units of a step without it."""
CONCURRENCY = 64
"""Number of concurrent questions."""


def overlap_table(params: Params, rounds: int) -> str:
    """A Markdown table of medians of `rounds` steps, for rollouts in sequence with the teacher and ahead of it."""
    alone, turns = steps(params, RulesTeacher(task_of(params, "marooned").make().rules), rounds, ahead=False)
    rows = []
    for share in SHARES:
        with patient(share * alone / turns) as url:
            seconds = judged(params, url, turns)
            for ahead in (False, True):
                teacher = served(params, url)
                both, _ = steps(params, teacher, rounds, ahead=ahead)
                teacher.close()
                way = "ahead, two groups" if ahead else "one after the other"
                cells = [f"{value:.2f}" for value in (alone, seconds, both, both / max(alone, seconds))]
                rows.append([way, *cells])
    names = ["rollouts", "step without, s", "teacher alone, s", "together, s", "of the larger"]
    head = f"{turns} turns a step, {params.ppo.rollout.episodes_per_step} episodes; medians of {rounds} steps."
    return f"{head}\n\n{table(names, rows)}"


def steps(params: Params, teacher: Teacher, rounds: int, ahead: bool) -> tuple[float, int]:
    """The median time of a step in seconds, and the number of its turns."""
    # Two extra steps: the first one warms up, and in the last one no rollouts are played ahead.
    many = rounds + 2
    rollout = {"async_rollout": ahead, "rollout_groups": 2 if ahead else 1, "turns_per_step": None}
    ppo = PpoParams.model_validate(merged(params.ppo, {"steps": many, "rollout": rollout}))
    changed = params.model_copy(update={"ppo": ppo})
    trainer: PpoTrainer = trainer_of(changed, None, teacher)
    found, turns = [], 0
    for _ in range(many - 1):
        began = perf_counter()
        turns = int(trainer.step()["turns"])
        found.append(perf_counter() - began)
    return median(found[1:]), turns


def judged(params: Params, url: str, count: int) -> float:
    """The time of the teacher for `count` questions that are asked together, in seconds."""
    attempts = distinct_attempts(task_of(params, "marooned").make(), count)
    teacher = served(params, url)
    began = perf_counter()
    teacher.judge(attempts)
    teacher.close()
    return perf_counter() - began


def served(params: Params, url: str) -> ServedTeacher:
    """A served teacher that uses the server at `url`."""
    rules = task_of(params, "marooned").make().rules
    return ServedTeacher("marooned", rules, Endpoint(url, "teacher", concurrency=CONCURRENCY), ServedOptions())


@contextmanager
def patient(seconds: float) -> Iterator[str]:
    """Context with a server that takes `seconds` per question, in its own process; yields its address."""
    command = [sys.executable, "-m", "benchmarks.patient_server", str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.kill()
