"""A teacher's server with every fault there is, and tasks from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from castaway.tasks.registry import entry_point


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A fault server in a process of its own."""
    command = [sys.executable, "-m", "tests.castaway.teacher.fault_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.kill()


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a package, or a module, outside any repository that offers the task of its name, and gives its place."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    offered: dict[str, EntryPoint] = {}
    monkeypatch.setattr("castaway.tasks.registry.entry_point", lambda name: offered.get(name) or entry_point(name))

    def make(name: str) -> Path:
        task = name.removesuffix(".py")
        value = f"castaway_{name}.task:Task" if task == name else f"castaway_{task}:Task"
        offered[task] = EntryPoint(task, value, "castaway.tasks")
        place = folder / f"castaway_{name}"
        if task == name:
            place.mkdir()
            (place / "__init__.py").write_text("", encoding="utf-8")
        else:
            place.write_text("", encoding="utf-8")
        return place

    return make
