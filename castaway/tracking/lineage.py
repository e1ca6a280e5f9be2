"""Brings what `data/` and `dvc.lock` know into MLflow, and checks that it is there.

    python -m flows lineage sync
    python -m flows lineage check

Each stage whose record is of its present outputs gets a run, if MLflow has none; one that is there gets the hashes of
its outputs. So an MLflow that was deleted, or is empty in a new clone, can be filled again, as often as one likes.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.metrics.built import Locked, locked_stages
from castaway.processes import environment
from castaway.tracking import store
from castaway.tracking.records import record_of
from castaway.tracking.stage_run import BUFFER

RECORDED = "castaway.recorded_run"
"""Tag of a run that was made anew: the id in the record, or the stage key if the stage could not reach MLflow."""
FACTS = ("task", "task_package", "device")  # what a record says that becomes a tag of its own


def main(targets: Sequence[str]) -> int:
    """`sync` or `check`; returns the exit status."""
    actions = {"sync": sync, "check": check}
    if len(targets) != 1 or targets[0] not in actions:
        raise CastawayError("lineage needs `sync` or `check`; `castaway lineage` shows which runs made an artifact")
    root = environment.find_root()
    stages = locked_stages(root)
    environment.use_host(root)
    with store.needed():
        return actions[targets[0]](root, stages)


def sync(root: Path, stages: Mapping[str, Locked]) -> int:
    """Give each stage that has a record its run; print what was done."""
    from mlflow.entities import RunTag

    mlflow = store.client()
    experiment = store.experiment_id(mlflow, root)
    models: dict[str, str] = {}
    tagged, made = 0, 0
    for stage in in_order(stages):
        run_id = existing(mlflow, experiment, stage)
        if run_id is None:
            if stage.known:
                rebuild(mlflow, experiment, root, stage, models)
                made += 1
            continue
        if mlflow.get_run(run_id).info.lifecycle_stage != "active":  # it was deleted in the page
            mlflow.restore_run(run_id)
        mlflow.log_batch(run_id, tags=[RunTag(key, value) for key, value in store.output_tags(stage.outs).items()])
        if mlflow.get_run(run_id).info.status != "FINISHED":  # MLflow was away when the stage ended
            mlflow.set_terminated(run_id, "FINISHED")
        tagged += 1
    unknown = ", ".join(stage.address for stage in in_order(stages) if not stage.known)
    without = f"; no record for {unknown}" if unknown else ""
    print(f"tagged {tagged} {'run' if tagged == 1 else 'runs'}, made {made}{without}")
    return 0


def in_order(stages: Mapping[str, Locked]) -> list[Locked]:
    """The stages, each after those whose output it reads."""
    makers = {path: one.address for one in stages.values() for path in one.outs}
    reads = {one.address: sorted({makers[out] for out in one.dependencies if out in makers}) for one in stages.values()}
    return [stages[address] for address in TopologicalSorter(reads).static_order()]


def existing(mlflow: Any, experiment: str, stage: Locked) -> str | None:
    """The run of the record, or the one that a sync made of it; None if MLflow has neither, or there is no record."""
    if not stage.known:
        return None
    run_id = stage.record.get("run_id")
    if run_id and store.unless_missing(lambda: mlflow.get_run(run_id)):
        return str(run_id)
    made = mlflow.search_runs([experiment], f"{_of_record(stage)} AND attributes.status = 'FINISHED'")
    return str(made[0].info.run_id) if made else None


def _of_record(stage: Locked) -> str:
    return f"tags.`{RECORDED}` = '{identity(stage)}'"


def rebuild(mlflow: Any, experiment: str, root: Path, stage: Locked, models: dict[str, str]) -> None:
    """Make the run of a stage from its record; `models` maps ids of models in records to those made here."""
    for run in mlflow.search_runs([experiment], _of_record(stage)):  # left by a sync that was stopped in the middle
        mlflow.delete_run(run.info.run_id)
    record, params = stage.record, stage.params
    tags = {
        **store.stage_tags(stage, record["stage_key"], str(record.get("revision", ""))),
        RECORDED: identity(stage),
        **{name: str(record[name]) for name in FACTS if record.get(name)},
        **store.output_tags(stage.outs),
    }
    began = int(1000 * datetime.fromisoformat(record["began"]).timestamp())
    run = mlflow.create_run(experiment, start_time=began, run_name=stage.address, tags=tags)
    run_id = run.info.run_id
    read = [record_of(root, path).get("model_id") for path in stage.dependencies]
    known = [models[model] for model in read if model in models]
    store.describe(mlflow, run_id, stage.name, params, stage.dependencies, known)
    points = points_of(root, stage, began)
    for first in range(0, len(points), BUFFER):
        mlflow.log_batch(run_id, metrics=points[first : first + BUFFER])
    if record.get("model_id"):
        of_model = {**store.output_tags(stage.outs), "dvc.stage_key": record["stage_key"]}
        models[record["model_id"]] = store.log_model(mlflow, run_id, stage.address, params, of_model)
    if stage.figures and (stage.name != "evaluate" or f"tasks.{stage.run}.task" in params):
        store.log_results(mlflow, run_id, root, stage.address, params, stage.figures)
    mlflow.set_terminated(run_id, "FINISHED", end_time=began + int(1000 * float(record.get("seconds", 0))))


def points_of(root: Path, stage: Locked, time: int) -> list[Any]:
    """The points of a stage's curves, as far as the file is still the one that it wrote, and its metrics."""
    from mlflow.entities import Metric

    path = str(Path(stage.artifact).parent / "plots" / f"{stage.name}.json")
    text = (root / path).read_bytes() if (root / path).is_file() else b""
    written = hashlib.md5(text, usedforsecurity=False).hexdigest() == stage.outs.get(path)
    rows = [(int(row.pop("step")), row) for row in (json.loads(text) if written else [])]
    points = [
        Metric(store.metric_name(name), float(value), time, step)
        for step, row in rows
        for name, value in row.items()
        if value is not None and math.isfinite(value)
    ]
    return points + [Metric(name, value, time, 0) for name, value in store.main_figures(stage.figures).items()]


def identity(stage: Locked) -> str:
    return str(stage.record.get("run_id") or stage.record["stage_key"])


def check(root: Path, stages: Mapping[str, Locked]) -> int:
    """Print what MLflow lacks of the run of each stage; the exit status is 1 if it lacks anything."""
    mlflow = store.client()
    experiment = store.experiment_id(mlflow, root)
    missing = {stage.address: lacks(mlflow, experiment, stage) for stage in in_order(stages)}
    for address, what in missing.items():
        if what:
            print(f"{address}: {', '.join(what)}")
    whole = sum(not what for what in missing.values())
    print(f"{whole} of {len(missing)} stages have a finished run with their metrics, model and hashes")
    return int(whole < len(missing))


def lacks(mlflow: Any, experiment: str, stage: Locked) -> list[str]:
    run_id = existing(mlflow, experiment, stage)
    if run_id is None:
        return ["no run" if stage.known else "no record of the run that made its outputs"]
    run = mlflow.get_run(run_id)
    missing = [] if run.info.status == "FINISHED" else [f"status {run.info.status}"]
    missing += [f"metric {name}" for name in sorted(store.main_figures(stage.figures).keys() - run.data.metrics.keys())]
    cached = stage.record.get("outputs") or {stage.artifact: stage.outs.get(stage.artifact)}
    missing += [f"hash of {path}" for path, md5 in cached.items() if run.data.tags.get(f"dvc.out.{path}") != md5]
    if stage.record.get("model_id") and not (run.outputs and run.outputs.model_outputs):
        missing.append("model")
    return missing
