"""Whole builds are timed in clones: idle and busy, apart or together."""

import json
import re
from pathlib import Path

import psutil
import pytest

from benchmarks import build
from tests.castaway.figures import save
from tests.miniature import commit

DRIVER = """\
import json, pathlib, sys
assert sys.argv[1:] == ["pipeline"] and not pathlib.Path("data").exists()
folder = pathlib.Path("data/marooned/runs")
folder.mkdir(parents=True)
(folder / "sft.json").write_text(json.dumps({"seconds": 75.4}))
"""
"""Stands for the driver of a clone: it builds nothing, and leaves a run record."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("flows/__init__.py", ""), ("flows/__main__.py", DRIVER), ("params.yaml", "seed: 1\n")):
        save(tmp_path / name, text)
    (tmp_path / "benchmarks").mkdir()
    commit(tmp_path)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "idle_cores", lambda: float(psutil.cpu_count() or 1))
    return tmp_path


def test_builds_of_the_same_params_are_told_beside_each_other(repository: Path) -> None:
    assert build.main(["idle"]) == 0
    assert build.main([]) == 0
    figures = json.loads((repository / "benchmarks/build.json").read_text("utf-8"))
    assert sorted(figures) == ["busy", "idle"] and figures["busy"]["stages"] == {"sft@marooned": 75.4}
    page = (repository / "benchmarks/build.md").read_text("utf-8")
    assert "times as long" in page and re.search(r"\| sft@marooned +\| +1:15 \| +1:15 \|", page)

    save(repository / "params.yaml", "seed: 2\n")
    commit(repository)
    assert build.main(["idle"]) == 0
    assert sorted(json.loads((repository / "benchmarks/build.json").read_text("utf-8"))) == ["idle"]
    assert "times as long" not in (repository / "benchmarks/build.md").read_text("utf-8")


def test_a_machine_in_use_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "idle_cores", lambda: 0.0)
    assert build.main(["idle"]) == 2
    assert capsys.readouterr().err.endswith("cores are in use; end what uses them, and measure again\n")
