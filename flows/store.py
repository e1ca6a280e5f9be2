"""Opens the store of MLflow, and brings back what a run needs in it: the database, the experiment, their places.

The store is an SQLite file in the repository, unless MLFLOW_TRACKING_URI names another. Its path is absolute, so that
experiments in temporary copies use the same store.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from flows.environment import main_root, store_of

SQLITE = "sqlite:///"
EXPERIMENT = "castaway"
"""The experiment of all runs: in MLflow's page, a run is nested under its parent only in one experiment with it."""
LOCK_SECONDS = 20.0
"""How long to wait for a database that another process writes to, in seconds; MLflow waits as long."""
PLACES = {"experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location"}
"""The tables of MLflow that hold absolute places of artifacts, and the column."""


def client(again: int = 0) -> Any:
    """An MLflow client for the store in `MLFLOW_TRACKING_URI`.

    Args:
        again: how often the store was opened before. MLflow keeps one store for each address and creates its tables
            only once, so a database that was deleted is opened by another spelling of its path.
    """
    # The import and the migration of the database would print a page of log lines; of a lock it prints a traceback.
    for name, level in (("alembic", "WARNING"), ("mlflow.tracking.fluent", "WARNING"), ("mlflow.store.db", "CRITICAL")):
        logging.getLogger(name).setLevel(level)
    # Traces are written at once, as the process may be killed at any moment. A connection that stays open would write
    # into a file that was deleted, without an error. A server that is away is asked again later, not for minutes now.
    os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    from mlflow import MlflowClient

    address = os.environ["MLFLOW_TRACKING_URI"]
    if address.startswith(SQLITE):
        require_database(Path(address.removeprefix(SQLITE).partition("?")[0]))
        folder, _, name = address.rpartition("/")
        address = f"{folder}/{'./' * again}{name}"
    return MlflowClient(address)


@contextmanager
def needed() -> Iterator[None]:
    """Context of a command that can do nothing without the store: its failure is told in one sentence.

    Raises:
        CastawayError: the store cannot be reached, is locked or is damaged.
    """
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError, sqlite3.Error) as error:
        place, remedy = os.environ["MLFLOW_TRACKING_URI"], "start it, or set MLFLOW_TRACKING_URI to another"
        raise CastawayError(f"MLflow's store {place} cannot be used ({one_line(error)}); {remedy}") from None


def require_database(path: Path) -> None:
    """Fail at once if the database cannot be opened; MLflow itself would try for minutes.

    Raises:
        OSError: there can be no such file.
        sqlite3.Error: it is locked or damaged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as connection:
        connection.execute("PRAGMA schema_version")


def experiment_id(mlflow: Any, root: Path) -> str:
    """The id of the experiment, created or restored if need be, with its files beside the database."""
    from mlflow.exceptions import MlflowException

    own = os.environ["MLFLOW_TRACKING_URI"] == store_of(root)
    local = os.environ["MLFLOW_TRACKING_URI"].startswith("sqlite:")
    place = (main_root(root) / "mlruns" / EXPERIMENT).as_uri() if local else None
    found = mlflow.get_experiment_by_name(EXPERIMENT)
    if found is None:
        try:
            return str(mlflow.create_experiment(EXPERIMENT, artifact_location=place))
        except MlflowException:  # another stage has created it in the meantime
            found = mlflow.get_experiment_by_name(EXPERIMENT)
    if found.lifecycle_stage == "deleted":  # in the web page of MLflow
        mlflow.restore_experiment(found.experiment_id)
    # Of the repository's own store only: one that clones share has the artifacts of the first of them.
    if own and place and found.artifact_location != place:
        relocate(main_root(root) / "mlflow.db", found.artifact_location, place)
    return str(found.experiment_id)


def relocate(database: Path, before: str, after: str) -> None:
    """Correct the places of artifacts after the repository was moved; MLflow has no call for it."""
    with closing(sqlite3.connect(database, timeout=LOCK_SECONDS)) as connection, connection:
        for table, column in PLACES.items():
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                (after, len(before) + 1, before, len(before) + 1, f"{before}/"),
            )


def metric_name(name: str) -> str:
    """A name that MLflow accepts: characters other than letters, digits and `_-. :/` become underscores."""
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)


def is_missing(error: Any) -> bool:
    """Whether an exception of MLflow says that what was asked for is not in the store."""
    return bool(error.error_code == "RESOURCE_DOES_NOT_EXIST")


def one_line(error: Exception) -> str:
    """The first 200 characters of an error's message, on one line."""
    return " ".join(str(error).split())[:200]
