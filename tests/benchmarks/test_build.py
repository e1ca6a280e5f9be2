"""Whole builds are timed in clones: idle and busy, apart or together."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from benchmarks import build
from castaway.errors import CastawayError

DRIVER = """\
import json, pathlib, sys
assert sys.argv[1:] == ["pipeline"] and not pathlib.Path("data").exists()
folder = pathlib.Path("data/marooned/runs")
folder.mkdir(parents=True)
(folder / "sft.json").write_text(json.dumps({"seconds": 75.4}))
pathlib.Path(pathlib.Path("log").read_text()).open("a").write("built ")
"""
"""Stands for the driver of a clone: it builds nothing, and leaves a run record."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    (root / "benchmarks").mkdir(parents=True)
    (root / "flows").mkdir()
    (root / "flows" / "__init__.py").touch()
    (root / "flows" / "__main__.py").write_text(DRIVER, encoding="utf-8")
    (root / "log").write_text(str(tmp_path / "built"), encoding="utf-8")
    (root / "params.yaml").write_text("seed: 1\n", encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr(build, "ROOT", root)
    monkeypatch.setattr(build, "require_commit", lambda: None)
    monkeypatch.setattr(build, "idle_cores", lambda: float(psutil.cpu_count() or 1))
    return root


def test_both_builds_are_timed_and_told_beside_each_other(repository: Path, tmp_path: Path) -> None:
    assert build.main(["idle"]) == 0
    assert "| stage " in (repository / "benchmarks/build.md").read_text("utf-8")
    assert build.main([]) == 0
    assert (tmp_path / "built").read_text() == "built " * 3
    figures = json.loads((repository / "benchmarks/build.json").read_text("utf-8"))
    assert sorted(figures) == ["busy", "idle"] and figures["busy"]["stages"] == {"sft@marooned": 75.4}
    page = (repository / "benchmarks/build.md").read_text("utf-8")
    assert "times as long" in page
    assert "| sft@marooned          | 1:15 | 1:15 |" in page


def test_builds_of_different_params_are_not_compared(repository: Path) -> None:
    assert build.main([]) == 0
    (repository / "params.yaml").write_text("seed: 2\n", encoding="utf-8")
    subprocess.run(["git", "commit", "-qam", "y"], cwd=repository, check=True)
    assert build.main(["idle"]) == 0
    assert sorted(json.loads((repository / "benchmarks/build.json").read_text("utf-8"))) == ["idle"]
    assert "times as long" not in (repository / "benchmarks/build.md").read_text("utf-8")


def test_a_built_clone_can_be_kept(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    assert build.main(["idle", "--keep", str(kept)]) == 0
    assert (kept / "data/marooned/runs/sft.json").is_file()
    assert build.main(["--keep", str(kept)]) == 2
    assert "--keep needs one of idle and busy" in capsys.readouterr().err


def test_the_page_is_worked_out_from_the_figures() -> None:
    one = {"commit": "c" * 40, "machine": "x86_64, 2 cores", "seconds": 1800, "stages": {"ppo@marooned": 600.0}}
    page = build.text_of({"idle": one, "busy": {**one, "seconds": 3780}})
    assert "- beside a process that keeps one core busy: 2.10 times as long" in page
    assert "| **all, side by side** | 30:00 | 63:00 |" in page


def test_a_machine_in_use_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "idle_cores", lambda: 0.0)
    assert build.main(["idle"]) == 2
    assert capsys.readouterr().err.endswith("cores are in use; end what uses them, and measure again\n")


def test_the_neighbour_is_busy_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(psutil.Process().children())  # such as the tracker of resources that multiprocessing keeps
    with build.neighbour():
        (child,) = set(psutil.Process().children()) - before
        while child.cpu_times().user < 0.05:
            pass
    assert not child.is_running()


def test_a_neighbour_of_ones_own(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lasting = f"touch {tmp_path / 'started'} && read forever < {tmp_path / 'pipe'}"
    os.mkfifo(tmp_path / "pipe")
    assert build.main(["busy", "--neighbour", lasting]) == 0
    figures = json.loads((repository / "benchmarks/build.json").read_text("utf-8"))
    assert (tmp_path / "started").exists() and figures["busy"]["neighbour"] == lasting
    before = set(psutil.Process().children())
    with (
        pytest.raises(CastawayError, match="the neighbour ended before the build: true; give"),
        build.neighbour("true"),
    ):
        (child,) = set(psutil.Process().children()) - before
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
