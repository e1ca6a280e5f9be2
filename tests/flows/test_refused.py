"""A stage whose device or task ids are not there: refused in one sentence, soon, with everything left as it was."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.conftest import BASE_ALONE, BODY, WITHOUT_MLFLOW, Repository
from tests.miniature import edited

SENTENCE = (
    "error: base is pinned to mi300x but torch sees no GPU on this host; "
    "run it on a host that has one, or change `device` in params.yaml or `pins` in host.yaml"
)
HEAVY = {"torch", "transformers", "mlflow", "prefect"}
"""Packages that take seconds to import, which a refusal is not worth."""


@pytest.fixture(scope="module")
def once(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of `built`, which is copied for each test."""
    made = Repository(tmp_path_factory.mktemp("built") / "repository")
    shutil.copytree(template, made.root)
    made.write("dvc.yaml", BASE_ALONE)
    made.write("stages/base.py", BODY)
    done = made.run("dvc", "repro", **WITHOUT_MLFLOW)
    assert done.returncode == 0, done.stderr
    made.change("params.yaml", "device: cpu", "device: mi300x")
    return made.root


@pytest.fixture
def built(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with a stage that was built on the CPU, and is now pinned to a GPU that this host has not."""
    made = Repository(tmp_path / "repository")
    shutil.copytree(once, made.root, symlinks=True)
    monkeypatch.chdir(made.root)
    return made


def contents(repository: Repository) -> dict[str, bytes]:
    folder = repository.root / "data"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_gpus(repository: Repository, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    hidden = {"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": ""}
    return repository.run(*arguments, **hidden, **WITHOUT_MLFLOW, **variables)


def imported(output: str) -> set[str]:
    """The packages that Python says it has imported, in the output of PYTHONPROFILEIMPORTTIME."""
    return {line.rpartition("|")[2].strip() for line in output.splitlines() if line.startswith("import time:")}


@pytest.mark.slow
def test_it_is_refused_by_every_way_of_starting(built: Repository) -> None:
    whole, lock = contents(built), (built.root / "dvc.lock").read_bytes()
    assert {"base/weights.txt", "metrics/base.json", "runs/base.json", "plots/base.json"} < set(whole)
    away = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    for arguments, variables in ((("dvc", "repro"), away), (("flows", "base"), {}), (("flows", "pipeline"), away)):
        done = without_gpus(built, *arguments, **variables, PYTHONPROFILEIMPORTTIME="1")
        assert done.returncode != 0, arguments
        assert done.stderr.splitlines().count(SENTENCE) == 1, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert "castaway.config.errors" in imported(done.stderr) and not HEAVY & imported(done.stderr), arguments
        # Under `dvc repro` DVC had deleted it all before the stage was started.
        assert contents(built) == whole, arguments
        assert (built.root / "dvc.lock").read_bytes() == lock
    # What the cache does not have is named.
    shutil.rmtree(built.root / ".dvc/cache/files")
    done = without_gpus(built, "dvc", "repro")
    assert done.returncode != 0 and SENTENCE in done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warning.startswith("warning: DVC has deleted data/base, ") and warning.endswith("its cache has no copy")


@pytest.mark.slow
def test_what_was_built_elsewhere_needs_no_device(built: Repository) -> None:
    built.change("params.yaml", "device: mi300x", "device: cpu")
    built.change("dvc.yaml", '"${device}"', "mi300x")  # `meta` is no input
    done = without_gpus(built, "flows", "pipeline")
    assert done.returncode == 0, done.stderr
    assert "base  Cached  " in done.stdout
    # Nor does what DVC restores: here from its run-cache, after the seed was set back.
    shutil.rmtree(built.root / "data/base")
    (built.root / "dvc.lock").unlink()
    done = without_gpus(built, "flows", "pipeline")
    assert done.returncode == 0, done.stderr
    assert (built.root / "data/base/weights.txt").exists()


def test_a_mistake_in_the_parameters_costs_no_model(built: Repository) -> None:
    built.change("params.yaml", "device: mi300x", "device: cpu")
    whole = contents(built)
    (built.root / "stages/base.py").rename(built.root / "stages/basis.py")
    built.change("dvc.yaml", "stages/base.py", "stages/basis.py")
    done = built.run("dvc", "repro")
    assert done.returncode != 0
    assert "stages/base.py does not exist, though dvc.yaml names the stage base" in done.stderr
    assert contents(built) == whole


RUN = """\
stages:
  base:
    foreach: [games]
    do: {cmd: "python -m flows base@${item}", params: [seed], outs: ["data/${item}/base"]}
  ppo:
    foreach: [openspiel]
    do: {cmd: "python -m flows ppo@${item}", params: [seed], outs: ["data/${item}/ppo"]}
"""
TOO_FEW = (
    "error: openspiel: the task openspiel has 5,000,000 ids, too few for seed 49: ppo.validation.episodes asks for "
    "6,000 and has 5,000; give it at least 6,000,000, each of them once, or lower these keys"
)


@pytest.mark.slow
def test_too_few_ids_are_told_before_anything_is_made(repository: Callable[[str], Repository]) -> None:
    made = repository(RUN)
    for stage in ("base", "ppo"):
        made.write(f"stages/{stage}.py", BODY)
    with edited(made.root / "params.yaml") as params:
        params["seed"] = 49
        run = params["tasks"]["openspiel"]
        run["ppo"]["validation"] = {**params["ppo"]["validation"], "episodes": 6000}
        for difficulty in ("easy", "medium", "hard"):
            run["game"][difficulty]["games"] = ["nim 1 3 5 7"]
    for arguments in (("dvc", "repro", "base@games"), ("flows", "ppo@openspiel")):
        done = made.run(*arguments)
        assert done.returncode != 0, arguments
        assert done.stderr.splitlines().count(TOO_FEW) == 1, (arguments, done.stderr)
        assert not (made.root / "data").exists()
