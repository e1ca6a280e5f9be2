"""`make demo`: a small run through all stages in a copy; a second call builds nothing and changes nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.miniature import copy_tree, environment, run

pytestmark = pytest.mark.slow
STAGES = ("base@answers", *(f"{stage}@strictbot" for stage in ("dataset", "sft", "reward_model", "ppo")))


def demo(root: Path) -> str:
    """What the demo prints."""
    command = ["python", "-m", "flows", "demo"]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_newcomer_sees_all_stages_and_figures(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "A clone")):
        run(tmp_path, "git", *command)
    first = demo(tmp_path)
    assert all(stage in first for stage in STAGES)
    assert len(re.findall(r"\| (?:base|sft|ppo|final) .*\d+\.\d % \(\d", first)) == 4
    assert "REASONING:" in first and "What to type next:" in first and "make repro" in first
    assert "nothing was built" in demo(tmp_path)
    assert run(tmp_path, "git", "status", "--porcelain") == ""
