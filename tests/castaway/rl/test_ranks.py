"""Two processes make the update of one."""

import os
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


def test_two_processes_make_the_update_of_one(tmp_path: Path) -> None:
    torchrun = ["-m", "torch.distributed.run", *arguments(Torchrun(nproc_per_node=2)), "--log-dir", str(tmp_path)]
    for processes, starter in ((1, []), (2, torchrun)):
        done = run([*starter, "-m", "tests.castaway.rl.training", str(tmp_path / f"of-{processes}")])
        assert done.returncode == 0, done.stderr[-3000:]
    for name in ("plain", "rich"):
        one, two = (torch.load(tmp_path / f"of-{n}.{name}", weights_only=False) for n in (1, 2))
        before = {key: value for key, value in one["history"][0].items() if key != "minibatches"}
        assert one["weights"].keys() == two["weights"].keys()
        for key, weight in one["weights"].items():
            assert torch.allclose(weight, two["weights"][key], rtol=0, atol=1e-5), (name, key)
        assert one["corrections"] == two["corrections"] > 0
        for mine, theirs in zip(one["history"], two["history"], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        assert before["turns"] == 5 * 3 + 5
