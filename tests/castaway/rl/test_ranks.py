"""Two processes make the update of one, and a failed one is told of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]


def run(code: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_two_processes_make_the_update_of_one(tmp_path: Path) -> None:
    for processes in (1, 2):
        done = run(["-m", "tests.castaway.rl.training", str(processes), str(tmp_path / f"of-{processes}")])
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


FAILING = """
import sys
from castaway.errors import CastawayError
from castaway.rl.launch import together

if __name__ == "__main__":
    try:
        with together(2, sys.exit, (3,)):
            pass
    except CastawayError as error:
        print(error)
"""


def test_a_follower_that_fails_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    done = run([str(tmp_path / "failing.py")])
    assert done.stdout == "process 1 of 2 failed (3); its lines above say why\n", done.stderr
