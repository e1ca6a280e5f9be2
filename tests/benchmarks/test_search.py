"""Optuna searches through DVC's experiments, in miniature, and goes on where it was stopped."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.search import range_of
from castaway.errors import CastawayError
from castaway.tools.experiments import experiments
from tests.flows.conftest import Repository, empty_store, repository, template

__all__ = ["empty_store", "repository", "template"]

PIPELINE = """\
stages:
  ppo:
    matrix: {run: [marooned]}
    cmd: python -m flows ppo@${item.run}
    deps: [stages/ppo.py]
    params: [ppo.learning_rate, tasks.marooned.ppo.learning_rate]
    outs: [data/marooned/ppo]
    metrics:
      - data/marooned/metrics/ppo.json: {cache: false}
      - data/marooned/runs/ppo.json: {cache: false}
"""
BODY = """
def run(context):
    (context.output / "weights.txt").write_text("1")
    return {"last_success_rate": 1 - abs(context.params.ppo.learning_rate - 0.002)}
"""


@pytest.mark.slow
def test_a_search_goes_on_where_it_stopped(repository: Callable[[str], Repository], empty_store: Path) -> None:
    made = repository(PIPELINE)
    made.write("stages/ppo.py", BODY)
    made.commit()
    shutil.copy(empty_store, made.root)
    wanted = ("benchmarks.search", "marooned", "ppo.learning_rate=1e-3:3e-3:log", "--trials")
    first = made.run(*wanted, "2")
    assert first.returncode == 0, first.stderr
    again = made.run(*wanted, "1")
    assert again.returncode == 0, again.stderr
    lines = [*first.stdout.splitlines()[:2], *again.stdout.splitlines()[:1]]
    assert [line.partition(":")[0] for line in lines] == ["0", "1", "2"]
    # What is drawn is what the run is built with, though it has a value of its own.
    for line in lines:
        figure, rate = float(line.split()[1]), float(line.split()[-1].rstrip("}"))
        assert figure == pytest.approx(1 - abs(rate - 0.002), abs=1e-4)
    assert [name for name, _ in experiments(made.root)] == [f"marooned-search-{number}" for number in range(3)]
    best = max(lines, key=lambda line: float(line.split()[1]))
    assert again.stdout.splitlines()[-1].startswith(f"best: marooned-search-{best[0]} with ")
    # The working tree is as it was.
    assert made.run("dvc", "status", "--quiet").returncode in (0, 1) and not (made.root / "data/marooned").exists()


def test_a_range_that_is_none_is_told() -> None:
    assert range_of("ppo.epochs=1:4:int")[0] == "ppo.epochs"
    for text in ("ppo.epochs", "ppo.epochs=1", "ppo.epochs=a:b", "ppo.epochs=1:2:odd"):
        with pytest.raises(CastawayError, match=r"is no range; write KEY=LOW:HIGH"):
            range_of(text)
