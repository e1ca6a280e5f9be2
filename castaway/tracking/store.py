"""The store of MLflow: brings back what a run needs in it (database, experiment, places), and what a stage's run holds.

The store is an SQLite file in the repository, unless MLFLOW_TRACKING_URI names another. Its path is absolute, so that
experiments in temporary copies use the same store.
"""

import json
import logging
import os
import posixpath
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from castaway.config.errors import CastawayError
from castaway.config.sections import POLICIES
from castaway.config.yaml_file import flatten
from castaway.metrics.built import Addressed, stage_path
from castaway.processes.environment import main_root, store_of
from castaway.processes.groups import has_ended
from castaway.tracking.records import read_json

SQLITE = "sqlite:///"
EXPERIMENT = "castaway"
"""The experiment of all runs: in MLflow's page, a run is nested under its parent only in one experiment with it."""
LOCK_SECONDS = 20.0  # how long to wait for a database that another process writes to, in seconds; MLflow waits as long
MOST = 30  # number of figures that a stage logs as metrics, in addition to its curves
RATES = ("success_rate", "invalid_rate", "success_rate_low", "success_rate_high", "mean_return", "episodes")
"""The figures of each policy that are metrics, where an evaluation has more than `MOST`."""
REPLAYS = 3  # number of episodes of an evaluation that are logged as pages, those of the final policy first
PLACES = {"experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location"}
"""The tables of MLflow that hold absolute places of artifacts, and the column."""


def client(again: int = 0) -> Any:
    """An MLflow client for the store in `MLFLOW_TRACKING_URI`, which was opened `again` times before.

    MLflow keeps one store for each address and creates its tables only once, so a database that was deleted is opened
    by another spelling of its path.
    """
    # The import and the migration of the database would print a page of log lines; of a lock it prints a traceback.
    for name, level in (("alembic", "WARNING"), ("mlflow.tracking.fluent", "WARNING"), ("mlflow.store.db", "CRITICAL")):
        logging.getLogger(name).setLevel(level)
    # Traces are written at once, as the process may be killed at any moment. A connection that stays open would write
    # into a file that was deleted, without an error. A server that is away is asked again later, not for minutes now.
    # The links that MLflow prints of a run open its GenAI page, which shows none of it (see `runs_page`).
    for name, value in (
        ("ENABLE_ASYNC_TRACE_LOGGING", "false"),
        ("SQLALCHEMYSTORE_POOLCLASS", "NullPool"),
        ("HTTP_REQUEST_MAX_RETRIES", "1"),
        ("HTTP_REQUEST_TIMEOUT", "10"),
        ("ENABLE_ARTIFACTS_PROGRESS_BAR", "false"),
        ("SUPPRESS_PRINTING_URL_TO_STDOUT", "true"),
    ):
        os.environ.setdefault(f"MLFLOW_{name}", value)
    address = os.environ["MLFLOW_TRACKING_URI"]
    if address.startswith(SQLITE):
        # Fails at once if it cannot be opened, is locked or is damaged; MLflow, whose import takes seconds, would try
        # for minutes.
        path = Path(unquote(address.removeprefix(SQLITE).partition("?")[0]))
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as connection:
            connection.execute("PRAGMA schema_version")
        folder, _, name = address.rpartition("/")
        address = f"{folder}/{'./' * again}{name}"
    from mlflow import MlflowClient

    return MlflowClient(address)


@contextmanager
def needed() -> Iterator[None]:
    """Context of a command that can do nothing without the store: its failure is a CastawayError."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError, sqlite3.Error) as error:
        place, remedy = os.environ["MLFLOW_TRACKING_URI"], "start it, or set MLFLOW_TRACKING_URI to another"
        raise CastawayError(f"MLflow's store {place} cannot be used ({one_line(error)}); {remedy}") from None


def experiment_id(mlflow: Any, root: Path) -> str:
    """The id of the experiment, created or restored if need be, with its files next to the database."""
    from mlflow.exceptions import MlflowException

    own = os.environ["MLFLOW_TRACKING_URI"] == store_of(root)
    local = os.environ["MLFLOW_TRACKING_URI"].startswith("sqlite:")
    place = (main_root(root) / "mlruns" / EXPERIMENT).as_uri() if local else None
    experiment = mlflow.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        try:
            return str(mlflow.create_experiment(EXPERIMENT, artifact_location=place))
        except MlflowException:  # another stage has created it in the meantime
            experiment = mlflow.get_experiment_by_name(EXPERIMENT)
    if experiment.lifecycle_stage == "deleted":  # in the web page of MLflow
        mlflow.restore_experiment(experiment.experiment_id)
    # Of the repository's own store only: one that clones share has the artifacts of the first of them.
    if own and place and experiment.artifact_location != place:
        relocate(main_root(root) / "mlflow.db", experiment.artifact_location, place)
    return str(experiment.experiment_id)


def relocate(database: Path, before: str, after: str) -> None:
    """Correct the places of artifacts after the repository was moved; MLflow has no call for it."""
    with closing(sqlite3.connect(database, timeout=LOCK_SECONDS)) as connection, connection:
        for table, column in PLACES.items():
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                (after, len(before) + 1, before, len(before) + 1, f"{before}/"),
            )


def runs_page(root: Path, server: str) -> str:
    """The page of the experiment's runs; without `workflowType`, MLflow 3 opens one for GenAI, without runs."""
    place, row = main_root(root) / "mlflow.db", None
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT experiment_id FROM experiments WHERE name = ?", (EXPERIMENT,)).fetchone()
    return f"{server}/#/experiments{f'/{row[0]}/runs' if row else ''}?workflowType=machine_learning"


def close_left_open(mlflow: Any, experiment: str, root: Path) -> None:
    """Close the runs that are marked as RUNNING though their process has ended: killed, or unable to reach MLflow."""
    for run in mlflow.search_runs([experiment], "attributes.status = 'RUNNING'"):
        tags = run.data.tags
        if has_ended(tags.get("process", "")):
            # A stage that came to its end has left a record.
            name, _, of = tags.get("dvc.stage", "").partition("@")
            recorded = read_json(root / stage_path(of, "runs", name)).get("run_id") if name else None
            mlflow.set_terminated(run.info.run_id, "FINISHED" if recorded == run.info.run_id else "KILLED")


def unless_missing(ask: Callable[[], Any], *codes: str) -> Any:
    """What MLflow answers; None if it says that it is not in the store, by that code or one of `codes`."""
    from mlflow.exceptions import MlflowException

    try:
        return ask()
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", *codes):
            return None
        raise


def warn(what: str, error: Exception) -> None:
    print(f"warning: MLflow {what}: {one_line(error)}", file=sys.stderr)


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def describe(
    mlflow: Any, run_id: str, stage: str, params: Mapping[str, Any], data: Mapping[str, str], models: Sequence[str]
) -> None:
    """Log the parameters, the data that the stage reads by path and md5, and the ids of the models among it."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, Param

    mlflow.log_batch(run_id, params=[Param(key, str(value)) for key, value in params.items()])
    tags = [InputTag("mlflow.data.context", stage)]
    datasets = [
        DatasetInput(Dataset(path, md5, "code", json.dumps({"tags": {"dvc.path": path}})), tags)
        for path, md5 in data.items()
    ]
    if datasets:
        mlflow.log_inputs(run_id, datasets=datasets, models=[LoggedModelInput(model) for model in models])


def stage_tags(stage: Addressed, stage_key: str, revision: str) -> dict[str, str]:
    return {
        "dvc.stage": stage.address,
        "dvc.stage_key": stage_key,
        "castaway.run": stage.run,
        "dvc.rev": revision,
        "mlflow.source.name": f"stages/{stage.name}.py",
        "mlflow.source.git.commit": revision.partition("+")[0],
    }


def output_tags(outputs: Mapping[str, str]) -> dict[str, str]:
    """The hashes of a stage's outputs, by which its run can be found."""
    return {f"dvc.out.{path}": md5 for path, md5 in outputs.items()}


def log_model(mlflow: Any, run_id: str, address: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Log a model without files, which are DVC's, and return its id."""
    from mlflow.entities import LoggedModelOutput

    model = mlflow.create_logged_model(
        experiment_id=mlflow.get_run(run_id).info.experiment_id,
        name=address.replace("@", "-"),
        source_run_id=run_id,
        params={key: str(value) for key, value in params.items()},
        tags={**tags, "mlflow.model.isExternal": "true"},
        model_type=address.partition("@")[0],
    )
    mlflow.finalize_logged_model(model.model_id, "READY")
    mlflow.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return str(model.model_id)


def main_figures(figures: Mapping[str, Any]) -> dict[str, float]:
    """At most `MOST` numbers among nested figures: all, or those that are not nested and the rates of the policies."""
    metrics = numbers(figures)
    if len(metrics) > MOST:
        nested = [f"{policy}.{rate}" for rate in RATES for policy in (*reversed(POLICIES), "expert")]
        plain = [name for name in metrics if "." not in name]
        metrics = {name: metrics[name] for name in [*plain, *nested][:MOST] if name in metrics}
    return {metric_name(name): value for name, value in metrics.items()}


def numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among nested figures, with dotted keys."""
    return {
        key: float(value)
        for key, value in flatten(figures).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def metric_name(name: str) -> str:
    """A name that MLflow accepts: letters, digits and `_-. :`, and `/` within a path that leads nowhere else."""
    accepted = re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)
    leads_away = accepted.startswith(("/", "..")) or posixpath.normpath(accepted) != accepted
    return accepted.replace("/", "_").replace("..", "__") if leads_away else accepted


def log_results(
    mlflow: Any, run_id: str, root: Path, address: str, params: Mapping[str, Any], figures: Mapping[str, Any]
) -> None:
    """Log what is no metric: figures beyond `MOST`, and the report, the charts and some episodes of an evaluation."""
    if len(numbers(figures)) > MOST:
        mlflow.log_dict(run_id, dict(figures), "figures.json")
    stage, _, run = address.partition("@")
    if stage != "evaluate":
        return
    from castaway.rollout.episodes import read_episode
    from castaway.tools.charts import grouped_bars
    from castaway.tools.report import report_page
    from castaway.tools.view import view_of

    view = view_of(str(params[f"tasks.{run}.task"]))
    with _or_warn("write the report"):
        mlflow.log_text(run_id, report_page(root, run), "report.html")
    with _or_warn("draw charts"):
        for name, (groups, figure) in view.charts(figures).items():
            mlflow.log_text(run_id, grouped_bars(groups, figure), f"charts/{name}")
    episodes = list((root / "data" / run / "evaluate").glob("*/*.jsonl"))
    episodes.sort(key=lambda path: (path.parent.name != "final", path.parent.name, len(path.stem), path.stem))
    for path in episodes[:REPLAYS]:
        with _or_warn(f"show {path.parent.name}/{path.name}"):
            mlflow.log_text(run_id, view.page(read_episode(path)), f"replays/{path.parent.name}-{path.stem}.html")


@contextmanager
def _or_warn(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        warn(f"could not {what}, going on without it", error)
