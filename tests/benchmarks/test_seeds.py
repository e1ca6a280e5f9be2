"""Other seeds are built in clones: with the shared cache, leaving only their figures."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks import seeds
from castaway.errors import CastawayError

PIPELINE = """\
stages:
  reward_model:
    foreach: [marooned]
    do:
      cmd: python castaway/stage.py reward_model
      params: [seed]
      metrics: [{data/marooned/metrics/reward_model.json: {cache: false}}]
  evaluate:
    foreach: [marooned]
    do:
      cmd: python castaway/stage.py evaluate
      params: [seed]
      deps: [data/marooned/metrics/reward_model.json]
      metrics: [{data/marooned/metrics/evaluate.json: {cache: false}}]
  merge:
    foreach: [marooned]
    do:
      cmd: python castaway/stage.py merge
      params: [seed]
      outs: [data/marooned/metrics/merge.json]
"""
STAGE = """\
import json, sys
from pathlib import Path

seed = Path("params.yaml").read_text().split("seed: ")[1].split()[0]
if seed == "13":
    sys.exit("no luck")
folder = Path("data/marooned/metrics")
folder.mkdir(parents=True, exist_ok=True)
(folder / f"{sys.argv[1]}.json").write_text(json.dumps({"of": sys.argv[1], "seed": int(seed)}))
"""


def run(root: Path, *command: str) -> None:
    subprocess.run(command, cwd=root, env=seeds.environment(), check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose stages take no time, built with seed 1 and committed."""
    root = tmp_path / "repository"
    (root / "castaway").mkdir(parents=True)
    (root / "castaway" / "stage.py").write_text(STAGE, encoding="utf-8")
    (root / "dvc.yaml").write_text(PIPELINE, encoding="utf-8")
    (root / "params.yaml").write_text("tasks: [marooned]\nseed: 1       # of all\nother: {seed: 5}\n", encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(seeds, "ROOT", root)
    monkeypatch.setattr(seeds, "CODE", ("castaway", "params.yaml", "dvc.yaml"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    run(root, "git", "init", "--quiet")
    run(root, sys.executable, "-m", "dvc", "init", "--quiet")
    run(root, sys.executable, "-m", "dvc", "repro", "--quiet")
    run(root, "git", "add", "--all")
    run(root, "git", "commit", "--quiet", "--message", "x")
    return root


def test_other_seeds_leave_their_figures_and_nothing_else(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert seeds.main(["1", "2"]) == 0
    folder = repository / "data" / "marooned" / "metrics" / "seeds"
    assert sorted(path.name for path in folder.iterdir()) == ["1.json", "2.json"]
    record = json.loads((folder / "2.json").read_text("utf-8"))
    assert record["seed"] == record["evaluate"]["seed"] == record["reward_model"]["seed"] == 2
    assert json.loads((folder / "1.json").read_text("utf-8"))["evaluate"]["seed"] == 1
    assert "Running stage 'merge@marooned'" in capfd.readouterr().out
    assert not list((repository.parent / "temporary").iterdir())
    assert "seed: 1 " in (repository / "params.yaml").read_text("utf-8")
    # Again: everything comes from the shared cache.
    assert seeds.main(["2"]) == 0
    assert "Running stage 'merge@marooned'" not in capfd.readouterr().out

    assert seeds.main(["13"]) == 2
    assert "`dvc repro merge@marooned evaluate@marooned` failed" in capfd.readouterr().err
    assert not (folder / "13.json").exists() and not list((repository.parent / "temporary").iterdir())

    (repository / "params.yaml").write_text("seed: 1\n", encoding="utf-8")
    assert seeds.main(["2"]) == 2
    assert "params.yaml is not committed" in capfd.readouterr().err


def test_only_the_seed_of_the_pipeline_changes(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("seed: 1       # of all\nother:\n  seed: 1\n", encoding="utf-8")
    seeds.set_seed(path, 23)
    assert path.read_text("utf-8") == "seed: 23       # of all\nother:\n  seed: 1\n"
    path.write_text("other: 1\n", encoding="utf-8")
    with pytest.raises(CastawayError, match=r"params\.yaml has 0 lines"):
        seeds.set_seed(path, 2)


def test_what_has_not_been_built_has_no_seed(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match="dvc repro"):
        seeds.built_seed(tmp_path, "marooned")
