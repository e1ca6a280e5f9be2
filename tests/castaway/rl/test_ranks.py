"""Two processes make the update of one, and stop together."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from castaway.tools.host_file import Torchrun
from flows.torchrun import arguments

ROOT = Path(__file__).parents[3]


def run(code: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process has trained."""
    place = tmp_path_factory.mktemp("alone") / "trained"
    done = run(["-m", "tests.castaway.rl.training", str(place)])
    assert done.returncode == 0, done.stderr[-3000:]
    return place


@pytest.mark.parametrize("how", ["whole", "sharded"])
def test_two_processes_make_the_update_of_one(how: str, alone: Path, tmp_path: Path) -> None:
    """Sharded, a process keeps half of the base model, and joins the other's passes where it has fewer of its own."""
    torchrun = ["-m", "torch.distributed.run", *arguments(Torchrun(nproc_per_node=2)), "--log-dir", str(tmp_path)]
    done = run([*torchrun, "-m", "tests.castaway.rl.training", str(tmp_path / "trained"), how])
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("plain", "rich", "again"):
        one, two = (
            torch.load(place.with_suffix(f".{name}"), weights_only=False) for place in (alone, tmp_path / "trained")
        )
        assert one["held"] == 1 and (two["held"] < 0.6 if how == "sharded" else two["held"] == 1)
        before = {key: value for key, value in one["history"][0].items() if key != "minibatches"}
        assert one["weights"].keys() == two["weights"].keys()
        for key, weight in one["weights"].items():
            apart = float((weight - two["weights"][key]).abs().max())
            assert apart < 5e-6, (name, key, apart)
        assert one["corrections"] == two["corrections"] > 0
        for mine, theirs in zip(one["history"], two["history"], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        assert before["turns"] == 5 * 3 + 5


@pytest.mark.parametrize("how", [[], ["ahead"]])
def test_an_outage_in_one_process_stops_both_in_the_same_step(how: list[str], tmp_path: Path) -> None:
    torchrun = ["-m", "torch.distributed.run", *arguments(Torchrun(nproc_per_node=2))]
    done = run([*torchrun, "-m", "tests.castaway.rl.outage", *how])
    assert done.returncode == 0, done.stderr[-3000:]
    said = sorted(re.findall(r"(\d) stopped in step (\d+): nobody answers", done.stdout))
    assert [rank for rank, _ in said] == ["0", "1"] and len({step for _, step in said}) == 1
    assert int(said[0][1]) > 0
