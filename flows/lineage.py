"""Brings what `data/` and `dvc.lock` know into MLflow, and checks that it is there.

    python -m flows lineage sync
    python -m flows lineage check

Each stage whose record is of its present outputs gets a run, if MLflow has none: with parameters, metrics, curves,
data, model and times as recorded. A run that is there gets the hashes of its outputs. So an MLflow that was deleted, or
is empty in a new clone, can be filled again, as often as one likes. `castaway lineage` needs no MLflow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.tools.lineage.locked import Locked, locked_stages
from castaway.tools.view import view_of
from flows import environment, results
from flows.records import record_of
from flows.store import client, experiment_id, is_missing, metric_name, needed
from flows.tracking import BUFFER

RECORDED = "castaway.recorded_run"
"""Tag of a run that was made anew: the id in the record, or the stage key if the stage could not reach MLflow."""
FACTS = ("task", "task_package", "device")
"""What a record says that becomes a tag of its own."""


def main(targets: Sequence[str]) -> int:
    """Sync or check.

    Raises:
        CastawayError: the target is neither, or the store cannot be used.
    """
    actions = {"sync": sync, "check": check}
    if len(targets) != 1 or targets[0] not in actions:
        raise CastawayError("lineage needs `sync` or `check`; `castaway lineage` shows which runs made an artifact")
    root = environment.find_root()
    stages = locked_stages(root)
    environment.silence(root)
    with needed():
        return actions[targets[0]](root, stages)


def sync(root: Path, stages: Mapping[str, Locked]) -> int:
    """Give each stage that has a record its run; print what was done."""
    from mlflow.entities import RunTag

    mlflow = client()
    experiment = experiment_id(mlflow, root)
    models: dict[str, str] = {}
    tagged, made, unknown = 0, 0, []
    for stage in in_order(stages):
        if not stage.known:
            unknown.append(stage.address)
            continue
        run_id = existing(mlflow, experiment, stage)
        if run_id is None:
            clear(mlflow, experiment, stage)
            rebuild(mlflow, experiment, root, stage, models)
            made += 1
            continue
        if mlflow.get_run(run_id).info.lifecycle_stage != "active":  # it was deleted in the page
            mlflow.restore_run(run_id)
        mlflow.log_batch(run_id, tags=[RunTag(key, value) for key, value in output_tags(stage).items()])
        if mlflow.get_run(run_id).info.status != "FINISHED":  # MLflow was away when the stage ended
            mlflow.set_terminated(run_id, "FINISHED")
        tagged += 1
    print(
        f"tagged {tagged} {'run' if tagged == 1 else 'runs'}, made {made}"
        + (f"; no record for {', '.join(unknown)}" if unknown else "")
    )
    return 0


def in_order(stages: Mapping[str, Locked]) -> list[Locked]:
    """The stages, each after those whose output it reads."""
    makers = {path: one.address for one in stages.values() for path in one.outs}
    needed = {
        one.address: sorted({makers[path] for path in one.dependencies if path in makers}) for one in stages.values()
    }
    return [stages[address] for address in TopologicalSorter(needed).static_order()]


def existing(mlflow: Any, experiment: str, stage: Locked) -> str | None:
    """The run of the record, or the one that a sync made of it; None if MLflow has neither."""
    from mlflow.exceptions import MlflowException

    run_id = stage.record.get("run_id")
    if run_id:
        try:
            mlflow.get_run(run_id)
            return str(run_id)
        except MlflowException as error:
            if not is_missing(error):
                raise
    made = [run for run in _made_again(mlflow, experiment, stage) if run.info.status == "FINISHED"]
    return str(made[0].info.run_id) if made else None


def clear(mlflow: Any, experiment: str, stage: Locked) -> None:
    """Delete the runs that a sync which was stopped in the middle has left."""
    for run in _made_again(mlflow, experiment, stage):
        if run.info.status != "FINISHED":
            mlflow.delete_run(run.info.run_id)


def _made_again(mlflow: Any, experiment: str, stage: Locked) -> list[Any]:
    return list(mlflow.search_runs([experiment], f"tags.`{RECORDED}` = '{identity(stage)}'"))


def rebuild(mlflow: Any, experiment: str, root: Path, stage: Locked, models: dict[str, str]) -> None:
    """Make the run of a stage from its record, `dvc.lock` and its small files.

    Args:
        mlflow: the client.
        experiment: id of the experiment.
        root: the repository.
        stage: the stage.
        models: id of a model in its record to that of the model made here; the stage's is added.
    """
    from mlflow.entities import LoggedModelInput, Param

    record = stage.record
    began = int(1000 * datetime.fromisoformat(record["began"]).timestamp())
    run = mlflow.create_run(experiment, start_time=began, run_name=stage.address, tags=tags_of(stage))
    run_id = run.info.run_id
    mlflow.log_batch(run_id, params=[Param(key, str(value)) for key, value in stage.params.items()])
    of_inputs = [record_of(root, path).get("model_id") for path in stage.dependencies]
    read = [LoggedModelInput(models[known]) for known in of_inputs if known in models]
    data = results.dataset_inputs(stage.name, stage.dependencies)
    if data or read:
        mlflow.log_inputs(run_id, datasets=data, models=read)
    points = points_of(root, stage, began)
    for first in range(0, len(points), BUFFER):
        mlflow.log_batch(run_id, metrics=points[first : first + BUFFER])
    if record.get("model_id"):
        params, tags = stage.params, output_tags(stage)
        models[record["model_id"]] = results.log_model(mlflow, run_id, stage.address, record["stage_key"], params, tags)
    pages_of(mlflow, run_id, root, stage)
    mlflow.set_terminated(run_id, "FINISHED", end_time=began + int(1000 * float(record.get("seconds", 0))))


def points_of(root: Path, stage: Locked, time: int) -> list[Any]:
    """The curves and metrics of a stage, as far as its files are still those that it wrote; all at the same time."""
    from mlflow.entities import Metric

    points = []
    text = stage.written(root, str(Path(stage.artifact).parent / "plots" / f"{stage.name}.json"))
    for row in json.loads(text) if text else []:
        step = int(row.pop("step"))
        points += [
            Metric(metric_name(name), float(value), time, step) for name, value in row.items() if value is not None
        ]
    for name, value in results.numbers(stage.metrics(root)).items():
        points.append(Metric(metric_name(name), value, time, 0))
    return [point for point in points if math.isfinite(point.value)]


def pages_of(mlflow: Any, run_id: str, root: Path, stage: Locked) -> None:
    """Log the charts of an evaluation, and the pages of its episodes if they are there."""
    text = stage.written(root, str(Path(stage.artifact).parent / "metrics" / f"{stage.name}.json"))
    task = stage.params.get(f"tasks.{stage.run}.task")
    if stage.name == "evaluate" and text and task:
        results.log_pages(mlflow, run_id, root, stage.run, view_of(str(task)), json.loads(text))


def identity(stage: Locked) -> str:
    """What tells the run of a record from all others."""
    return str(stage.record.get("run_id") or stage.record["stage_key"])


def output_tags(stage: Locked) -> dict[str, str]:
    """The hashes of a stage's outputs, by which its run can be found."""
    return {f"dvc.out.{path}": md5 for path, md5 in stage.outs.items()}


def tags_of(stage: Locked) -> dict[str, str]:
    """The tags of a run that is made anew."""
    revision = str(stage.record.get("revision", ""))
    return {
        "dvc.stage": stage.address,
        "dvc.stage_key": stage.record["stage_key"],
        "castaway.run": stage.run,
        "dvc.rev": revision,
        "mlflow.source.name": f"stages/{stage.name}.py",
        "mlflow.source.git.commit": revision.partition("+")[0],
        RECORDED: identity(stage),
        **{name: str(stage.record[name]) for name in FACTS if stage.record.get(name)},
        **output_tags(stage),
    }


def check(root: Path, stages: Mapping[str, Locked]) -> int:
    """Print what MLflow lacks of the run of each stage; the exit status is 1 if it lacks anything."""
    mlflow = client()
    experiment = experiment_id(mlflow, root)
    missing = {stage.address: lacks(mlflow, experiment, root, stage) for stage in in_order(stages)}
    for address, what in missing.items():
        if what:
            print(f"{address}: {', '.join(what)}")
    whole = sum(not what for what in missing.values())
    print(f"{whole} of {len(missing)} stages have a finished run with their metrics, model and hashes")
    return int(whole < len(missing))


def lacks(mlflow: Any, experiment: str, root: Path, stage: Locked) -> list[str]:
    """What is missing in MLflow of the run that made the outputs of a stage."""
    run_id = existing(mlflow, experiment, stage) if stage.known else None
    if run_id is None:
        return ["no run" if stage.known else "no record of the run that made its outputs"]
    run = mlflow.get_run(run_id)
    found = [] if run.info.status == "FINISHED" else [f"status {run.info.status}"]
    names = {metric_name(name) for name in results.numbers(stage.metrics(root))} - run.data.metrics.keys()
    found += [f"metric {name}" for name in sorted(names)]
    cached = stage.record.get("outputs") or {stage.artifact: stage.outs.get(stage.artifact)}
    found += [f"hash of {path}" for path, md5 in cached.items() if run.data.tags.get(f"dvc.out.{path}") != md5]
    if stage.record.get("model_id") and not (run.outputs and run.outputs.model_outputs):
        found.append("model")
    return found
