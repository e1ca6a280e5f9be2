"""A real store of MLflow: whole, locked by another process, broken, absent, or a server."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from castaway.tools.doctor.mlflow_store import mlflow_store

LOCK = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute(sys.argv[2])
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an MLflow database that has one run."""
    folder = tmp_path_factory.mktemp("store")
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    client.create_run(client.create_experiment("marooned"))
    return folder


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Context in which another process holds a lock of the database."""
    command = [sys.executable, "-c", LOCK, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.kill()


def test_a_store_is_read_and_nothing_is_written(store: Path) -> None:
    path = store / "mlflow.db"
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns, sorted(store.iterdir())
    (found,) = mlflow_store(store)
    assert (found.state, found.found) == ("ok", f"{path} holds 1 runs, and can be written to")
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns, sorted(store.iterdir())) == before


@pytest.mark.parametrize("how", ["begin immediate", "begin exclusive"])
def test_a_store_that_another_process_has_locked_is_a_warning(store: Path, how: str) -> None:
    with locked(store / "mlflow.db", how):
        (found,) = mlflow_store(store)
    assert found.state == "warning" and found.found.endswith("is locked by another program")
    assert mlflow_store(store)[0].state == "ok"


@pytest.mark.parametrize("content", [b"this is no database, " * 100, b""])
def test_another_file_has_failed_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mlflow.db").write_bytes(content)
    (found,) = mlflow_store(tmp_path)
    assert found.state == "failed" and "cannot be used" in found.found
    assert (tmp_path / "mlflow.db").read_bytes() == content


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    (found,) = mlflow_store(tmp_path)
    assert found.state == "ok" and "the first stage makes it" in found.found
    assert list(tmp_path.iterdir()) == []


def test_a_store_elsewhere_is_asked(
    tmp_path: Path, store: Path, serve: Callable[..., int], free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address, state in [
        (f"sqlite:///{store / 'mlflow.db'}", "ok"),
        (f"http://127.0.0.1:{serve({'/health': (200, 'OK')})}/", "ok"),
        (f"http://127.0.0.1:{serve({})}", "failed"),
        (f"http://127.0.0.1:{free}", "failed"),
        ("postgresql://nobody@127.0.0.1/none", "ok"),
    ]:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert mlflow_store(tmp_path)[0].state == state, address
