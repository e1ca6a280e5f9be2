"""Real DVC repositories in temporary folders, for stages that take no time."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow import MlflowClient

from castaway.tracking import dvc_stage
from flows.__main__ import main
from flows.prefect_server import EPHEMERAL
from flows.preload import SOCKET
from tests.miniature import set_params

ROOT = Path(__file__).parents[2]

BODY = """
def run(context):
    (context.output / "weights.txt").write_text(f"{context.stage} {context.params.seed}")
    for step in range(3):
        context.log(step, {"loss": 1 / (step + 1)})
    return {"score": {"mean": 1 / 3, "best": 1}, "note": "text is not sent to MLflow"}

HEADLINE = {"mean": "score.mean", "best": "score.best", "worst": "score.worst"}
"""
"""The body of a stage that takes no time."""

EVALUATE = """
import json
from castaway.tasks.intervals import proportion
WON = {1: 120, 2: 60, 3: 180}
def run(context):
    won = WON[context.params.seed]
    rows = [
        {"player": "final", "task_id": number, "seat": "crew", "success": number < won, "turns": 1, "invalid": 0}
        for number in range(200)
    ]
    (context.output / "outcomes.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
    figures = {**proportion(won, 200).entries("success_rate"), **proportion(0, 200).entries("invalid_rate")}
    return {"sft": figures, "final": figures}
"""
"""The body of an evaluation, whose final policy is better or worse by the seed."""


@dataclass(frozen=True)
class Repository:
    """A DVC repository of its own, with the shipped params.yaml, seed 1 and one thread."""

    root: Path

    def write(self, path: str, text: str) -> None:
        """Write a file in it."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def change(self, path: str, before: str, after: str) -> None:
        """Change a file in it."""
        text = (self.root / path).read_text(encoding="utf-8")
        assert before in text
        self.write(path, text.replace(before, after, 1))

    def environment(self, **variables: str) -> dict[str, str]:
        """Its commands find our interpreter, our packages, and the stages of the repository itself first."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"PATH": path, "PYTHONPATH": str(ROOT), EPHEMERAL: "false", SOCKET: ""}
        return {**os.environ, **own, **variables}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a Python module in it: `run("flows", "base")`, `run("dvc", "repro")`."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """The same in the background; `stdout` has what it prints, errors too."""
        return subprocess.Popen(
            [sys.executable, "-u", "-m", *arguments],
            cwd=self.root,
            env=self.environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def drive(self, *arguments: str) -> int:
        """Run `python -m flows` in this process, which does not wait for imports; returns the exit status."""
        os.environ.update(self.environment())  # put back by `same_environment`
        return main(arguments)

    def commit(self) -> None:
        """Commit everything to git."""
        for command in (["add", "--all"], ["commit", "--quiet", "--message", "x"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)


WITHOUT_MLFLOW = {"MLFLOW_TRACKING_URI": "sqlite:////dev/null/mlflow.db"}
"""A database that cannot be: MLflow is not even imported, which takes seconds."""

WAIT = """\
stages:
  wait:
    cmd: python wait.py
    deps: [hull.txt]
    outs: [data/wait]
    meta: {timeout_minutes: 10}
"""
WAITING = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
open("processes", "w").write(f"{os.getpid()} {child.pid}")
print("here", flush=True)
child.wait()
"""


def processes_are_gone(repository: Repository) -> bool:
    """Whether the waiting stage and its child end (a zombie has; it only waits to be counted).

    A signal takes effect when the process is next scheduled, which on a loaded machine is not at once.
    """
    for number in (repository.root / "processes").read_text().split():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(number))
            try:
                process.wait(timeout=30)
            except psutil.TimeoutExpired:
                if process.status() != psutil.STATUS_ZOMBIE:
                    return False
    return True


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty repository, made once and copied for each test."""
    place = tmp_path_factory.mktemp("template")
    subprocess.run(["git", "init", "--quiet"], cwd=place, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], cwd=place, check=True)
    for name in ("params.yaml", ".dvcignore", ".gitignore", "stages/__init__.py", "stages/context.py"):
        (place / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    # What tests change from, whatever is shipped.
    set_params(place, {"seed": 1, "device": "cpu", "threads": 1})
    return place


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with nothing but its tables, which take seconds to make."""
    place = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{place}").search_experiments()
    return place


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Prefect server for the tests of a file."""
    from tests.flows.running import PrefectServer  # which knows the repositories of this file

    made = PrefectServer(tmp_path_factory.mktemp("prefect"))
    yield made
    made.kill()


@pytest.fixture
def repository(
    tmp_path: Path, template: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Repository]:
    """Makes a repository with the given dvc.yaml and an empty MLflow store, and goes there."""

    def make(pipeline: str) -> Repository:
        made = Repository(tmp_path / "repository")
        shutil.copytree(template, made.root)
        shutil.copy(empty_store, made.root)
        made.write("dvc.yaml", pipeline)
        monkeypatch.chdir(made.root)
        return made

    return make


BASE_ALONE = """\
stages:
  base:
    cmd: python -m flows base
    deps: [stages/base.py]
    params: [seed, device]
    outs: [data/base, data/figures/base.json, data/runs/base.json, data/plots/base.jsonl]
    metrics:
      - data/metrics/base.json: {cache: false}
    plots:
      - data/plots/base.json: {cache: false}
    meta: {device: "${device}"}
"""
"""One stage, with the metrics, the curves and the record of a run."""


def of_marooned(stages: Mapping[str, tuple[Sequence[str], str]]) -> str:
    """A pipeline of the run `marooned`: the stages, each with those whose output it reads, and its parameters."""
    return "stages:\n" + "".join(
        f"""\
  {name}:
    matrix: {{run: [marooned]}}
    cmd: python -m flows {name}@${{item.run}}
    deps: [{", ".join([f"stages/{name}.py", *(f"data/marooned/{one}" for one in read)])}]
    params: [{params}]
    outs: [data/marooned/{name}, data/marooned/figures/{name}.json, data/marooned/runs/{name}.json]
    metrics: [data/marooned/metrics/{name}.json: {{cache: false}}]
    plots: [data/marooned/plots/{name}.json: {{cache: false}}]
"""
        for name, (read, params) in stages.items()
    )


TRACKED = """\
stages:
  base:
    cmd: python -m flows base
    deps: [stages/base.py]
    params: [seed, base]
    outs: [data/base]
  sft:
    foreach: ${tasks}
    do:
      cmd: python -m flows sft@${key}
      deps: [data/base]
      params: [sft]
      outs: ["data/${key}/sft"]
  evaluate:
    foreach: ${tasks}
    do:
      cmd: python -m flows evaluate@${key}
      deps: [data/base]
      params: [evaluate]
      outs: ["data/${key}/evaluate"]
"""
PARAMS = {"seed": 1, "base": {"layers": 3, "lora": {"rank": 8}}}
REVISION = "c" * 40


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> str:
    """The address of an MLflow store of its own."""
    shutil.copy(empty_store, tmp_path)
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def made(
    repository: Callable[[str], Repository], store: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dvc_stage.DvcStage]:
    """Gives the declaration of a stage in a repository where `data/base` exists."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    repo = repository(TRACKED)
    repo.write("stages/base.py", BODY)
    repo.write("data/base/weights.txt", "1")
    repo.commit()
    return lambda address: dvc_stage.load(repo.root, address)
