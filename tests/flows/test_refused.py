"""A stage whose device or task ids are not there: refused in one sentence, soon, with everything left as it was."""

import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.conftest import BODY, Repository
from tests.miniature import edited

PIPELINE = """\
stages:
  base:
    cmd: python -m flows base
    deps: [stages/base.py]
    params: [seed, device]
    outs: [data/base, data/plots/base.jsonl]
    metrics:
      - data/metrics/base.json: {cache: false}
      - data/runs/base.json: {cache: false}
    plots:
      - data/plots/base.json: {cache: false}
    meta: {device: "${device}"}
"""
SENTENCE = (
    "error: base is pinned to mi300x but torch sees no GPU on this host; "
    "run it on a host that has one, or change `device` in params.yaml or `pins` in host.yaml"
)
SECONDS = 5.0
"""Of processor time: on a machine that is not idle, the clock says nothing."""


@pytest.fixture
def built(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    """A repository with a stage that was built on the CPU, and is now pinned to a GPU that this host has not."""
    made = repository(PIPELINE)
    made.write("stages/base.py", BODY)
    shutil.copy(empty_store, made.root)
    done = made.run("dvc", "repro")
    assert done.returncode == 0, done.stderr
    made.change("params.yaml", "device: cpu", "device: mi300x")
    return made


def contents(repository: Repository) -> dict[str, bytes]:
    folder = repository.root / "data"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def timed(repository: Repository, *arguments: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = repository.run(*arguments, HIP_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="", **variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_it_is_refused_by_every_way_of_starting(built: Repository) -> None:
    whole, lock = contents(built), (built.root / "dvc.lock").read_bytes()
    assert {"base/weights.txt", "metrics/base.json", "runs/base.json", "plots/base.json"} < set(whole)
    away = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    for arguments, variables in (
        (("dvc", "repro"), {}),
        (("flows", "base"), {}),
        (("flows", "pipeline"), {}),
        (("flows", "pipeline"), away),
        (("dvc", "repro", "--force"), away),
    ):
        done, seconds = timed(built, *arguments, **variables)
        assert done.returncode != 0, arguments
        assert done.stderr.splitlines().count(SENTENCE) == 1, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert seconds < SECONDS, arguments
        # Under `dvc repro` DVC had deleted it all before the stage was started.
        assert contents(built) == whole, arguments
        assert (built.root / "dvc.lock").read_bytes() == lock
    built.change("params.yaml", "device: mi300x", "device: cpu")
    assert "Running stage" not in built.run("dvc", "repro").stdout


def test_what_was_built_elsewhere_needs_no_device(built: Repository) -> None:
    built.change("params.yaml", "device: mi300x", "device: cpu")
    built.change("dvc.yaml", '"${device}"', "mi300x")  # `meta` is no input
    done = built.run("flows", "pipeline", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert "base  Cached  " in done.stdout
    # Nor does what DVC restores: here from its run-cache, after the seed was set back.
    shutil.rmtree(built.root / "data/base")
    (built.root / "dvc.lock").unlink()
    done = built.run("flows", "pipeline", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert (built.root / "data/base/weights.txt").exists()


def test_what_the_cache_does_not_have_is_named(built: Repository) -> None:
    shutil.rmtree(built.root / ".dvc/cache/files")
    done, _ = timed(built, "dvc", "repro")
    assert done.returncode != 0
    assert SENTENCE in done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warning.startswith("warning: DVC has deleted data/base, ")
    assert warning.endswith("and its cache has no copy")


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
  dataset:
    foreach: [openspiel]
    do: {cmd: "python -m flows dataset@${item}", params: [seed], outs: ["data/${item}/dataset"]}
  ppo:
    foreach: [openspiel]
    do: {cmd: "python -m flows ppo@${item}", params: [seed], outs: ["data/${item}/ppo"]}
"""
TOO_FEW = (
    "error: openspiel: the task openspiel has 5,000,000 ids, too few for seed 49: ppo.validation.episodes asks for "
    "6,000 and finds 5,000; give it at least 6,000,000, each of them once, or lower these keys"
)


def test_too_few_ids_are_told_before_anything_is_made(
    repository: Callable[[str], Repository], empty_store: Path
) -> None:
    made = repository(RUN)
    shutil.copy(empty_store, made.root)
    for stage in ("base", "dataset", "ppo"):
        made.write(f"stages/{stage}.py", BODY.replace("for step", "return {}\n    for step"))
    with edited(made.root / "params.yaml") as params:
        params["seed"] = 49
        run = params["tasks"]["openspiel"]
        run["ppo"]["validation"] = {**params["ppo"]["validation"], "episodes": 6000}
        for difficulty in ("easy", "medium", "hard"):
            run["game"][difficulty]["games"] = ["nim 1 3 5 7"]
    for arguments in (("dvc", "repro", "base@games"), *(("flows", f"{name}@openspiel") for name in ("dataset", "ppo"))):
        done = made.run(*arguments)
        assert done.returncode != 0, arguments
        assert done.stderr.splitlines().count(TOO_FEW) == 1, (arguments, done.stderr)
        assert not (made.root / "data").exists()
    made.change("params.yaml", "episodes: 6000", "episodes: 5000")
    done = made.run("flows", "dataset@openspiel")
    assert done.returncode == 0, done.stderr
