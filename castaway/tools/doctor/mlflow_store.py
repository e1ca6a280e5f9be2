"""The store of MLflow: whether runs can be read from it and written to it, without writing anything."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.doctor.servers import health

LOCK_SECONDS = 1.0
"""How long the doctor waits for another program that writes to the store."""
SQLITE = "sqlite:///"


def mlflow_store(root: Path) -> list[Finding]:
    """One finding about the store in MLFLOW_TRACKING_URI, by default `mlflow.db` in the repository."""
    address = os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}{root.resolve() / 'mlflow.db'}"
    if address.startswith(SQLITE):
        return [_file(Path(address.removeprefix(SQLITE)).resolve())]
    if not address.startswith(("http://", "https://")):
        return [ok("MLflow", f"{address}, which the doctor does not ask")]
    remedy = "start the server, or unset MLFLOW_TRACKING_URI to record in mlflow.db"
    return [health("MLflow", "MLFLOW_TRACKING_URI", address.rstrip("/"), remedy)]


def _file(path: Path) -> Finding:
    if not path.exists():
        if os.access(path.parent, os.W_OK):
            return ok("MLflow", f"{path} is not there yet; the first stage makes it")
        return failed("MLflow", f"{path} is not there, and its folder cannot be written to", "change its permissions")
    try:
        # isolation_level None: no transaction but the one below, which takes the lock of a writer and gives it back.
        store = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_SECONDS, isolation_level=None)
        with closing(store):
            (runs,) = store.execute("select count(*) from runs").fetchone()
            store.execute("begin immediate")
            store.execute("rollback")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            return warning(
                "MLflow",
                f"{path} is locked by another program",
                "wait until it has written; a stage that cannot record goes on without MLflow",
            )
        return failed(
            "MLflow",
            f"{path} cannot be used ({error})",
            "move it away, and the next stage makes a new one; or make it writable",
        )
    return ok("MLflow", f"{path} holds {runs} runs, and can be written to")
