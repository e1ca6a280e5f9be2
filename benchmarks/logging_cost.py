"""Measures what logging costs a stage of PPO, and the time of `castaway lineage`, with 10,000 runs in MLflow's store.

The stage runs as under DVC, in a temporary repository: `python -m flows ppo@marooned`, with a store, and PPO's trainer
on an untrained model. Its record says how long it took, and how much of that was spent on logging.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from castaway.metrics.built import built
from castaway.metrics.markdown import table
from castaway.tracking.store import EXPERIMENT, SQLITE

ROOT = Path(__file__).parents[1]
RUNS = 10_000
"""Number of runs in the store."""
STAGE = "ppo@marooned"
PIPELINE = """\
stages:
  ppo:
    matrix: {run: [marooned]}
    cmd: python -m flows ppo@${item.run}
    params: [seed, tasks.marooned.task]
    outs: [data/marooned/ppo]
"""
BODY = """
from benchmarks.step_share import trainer_of
from castaway.tasks.registry import read_params

def run(context):
    trainer = trainer_of(read_params(context.root / "params.yaml").for_run("marooned"), {turns})
    for step in range(1, {steps} + 1):
        context.log(step, trainer.step())
    (context.output / "model.safetensors").write_bytes(b"")
    return {{"steps": {steps}}}
"""
COPIED = ("params.yaml", "dvc.lock", ".dvcignore", "stages/__init__.py", "stages/context.py")
TABLES = {"tags": "key, value", "params": "key, value", "latest_metrics": "key, value, timestamp, step, is_nan"}
"""The tables of MLflow with what belongs to a run, and their columns beside its id."""


def logging_table(steps: int, turns: int, repeats: int) -> str:
    """A Markdown table of both.

    Args:
        steps: number of steps of PPO.
        turns: turns of a step.
        repeats: how often `castaway lineage` runs; the median is shown.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, BODY.format(steps=steps, turns=turns))
        fill(root, RUNS)
        lineage = median(seconds_of(root, "castaway.tools.cli.main", "lineage", "marooned") for _ in range(repeats))
        seconds_of(root, "flows", STAGE)
        record = built(root, "marooned", "ppo").record
    logging, whole = record["logging_seconds"], record["seconds"]
    rows = [
        [f"PPO, {steps} steps of {turns} turns, from its start to its end", f"{whole:.1f}", ""],
        ["logging in it", f"{logging:.2f}", f"{100 * logging / whole:.1f} %"],
        ["`castaway lineage marooned`", f"{lineage:.2f}", ""],
    ]
    return f"{RUNS:,} runs in the store.\n\n{table(['what', 'seconds', 'share'], rows)}"


def prepare(root: Path, body: str) -> None:
    """Make a repository with one stage, and with what git knows of the builds in this one."""
    paths = [ROOT / path for path in COPIED]
    paths += ROOT.glob("data/*/published/*.json")
    for path in paths:
        place = root / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (root / "dvc.yaml").write_text(PIPELINE, encoding="utf-8")
    (root / "stages/ppo.py").write_text(body, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], cwd=root, check=True)


def fill(root: Path, count: int) -> None:
    """Make a store with `count` finished runs of a stage: one by MLflow itself, and copies of its rows."""
    client = MlflowClient(f"{SQLITE}{root}/mlflow.db")
    experiment = client.create_experiment(EXPERIMENT, (root / "mlruns" / EXPERIMENT).as_uri())
    run = client.create_run(experiment, run_name=STAGE).info.run_id
    client.log_batch(
        run,
        metrics=[Metric(f"metric_{place}", place, 0, 0) for place in range(30)],
        params=[Param(f"param_{place}", str(place)) for place in range(50)],
        tags=[RunTag("dvc.stage", STAGE), RunTag("dvc.stage_key", "0" * 64)],
    )
    client.set_terminated(run)
    copies = [(uuid.uuid4().hex,) for _ in range(count - 1)]
    columns = "name, source_type, user_id, status, start_time, end_time, lifecycle_stage, artifact_uri, experiment_id"
    with closing(sqlite3.connect(root / "mlflow.db")) as database, database:
        database.executemany(f"INSERT INTO runs (run_uuid, {columns}) SELECT ?, {columns} FROM runs LIMIT 1", copies)
        for name, values in TABLES.items():
            database.execute(
                f"INSERT INTO {name} (run_uuid, {values}) "
                f"SELECT runs.run_uuid, {values} FROM {name}, runs WHERE runs.run_uuid != {name}.run_uuid"
            )


def seconds_of(root: Path, *arguments: str) -> float:
    """How long a command takes in the repository: `seconds_of(root, "flows", "ppo@marooned")`.

    Raises:
        RuntimeError: it failed.
    """
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr[-2000:]}")
    return perf_counter() - began
