"""`castaway teacher` as a person types it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from castaway.errors import CastawayError
from castaway.teacher.key import KEY_FILE_VARIABLE, KEY_VARIABLE, secret

ROOT = Path(__file__).parents[3]


def teacher(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "castaway.cli.main", "teacher", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("run", ["marooned", "openspiel", "strictbot"])
def test_check_prints_the_verdicts_on_four_replies_beside_those_of_the_rules(url: str, run: str) -> None:
    done = teacher("check", "--url", url, "--model", "good", "--run", run)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:6]]
    assert rows == [rows[0], f"{rows[0]} {rows[0]}", "DANCE", "I do not know"] and rows[0]
    assert "tries: 4" in done.stdout


def test_check_takes_the_first_run_and_names_a_run_that_does_not_exist(url: str) -> None:
    profile = str(ROOT / "profiles" / "demo.yaml")
    done = teacher("check", "--url", url, "--model", "good", "--params", profile)
    assert done.returncode == 0 and "tries: 4" in done.stdout, done.stderr
    done = teacher("check", "--url", url, "--run", "chess")
    assert done.returncode == 2 and "chess" in done.stderr and done.stderr.count("\n") == 1


def test_bench_measures_each_level_and_counts_what_can_be_used(url: str) -> None:
    done = teacher("bench", "--url", url, "--model", "good", "--questions", "6", "--level", "1", "--level", "3")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| ") and "%" in line]
    measured = [[cell.strip() for cell in row] for row in rows if row[0].strip().isdigit()]
    assert [(row[0], row[4], row[5]) for row in measured] == [("1", "100 %", "0"), ("3", "100 %", "0")]
    assert "0 %" in teacher("bench", "--url", url, "--model", "prose", "--questions", "2", "--level", "1").stdout


def test_a_server_that_refuses_is_told_in_one_line(url: str) -> None:
    done = teacher("check", "--url", url, "--model", "rejecting")
    assert done.returncode == 2 and done.stderr.startswith("error: the teacher's server at http://127.0.0.1")
    assert "run the stage again" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "bench"])
def test_where_nothing_listens_it_is_told_at_once(command: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        began = monotonic()
        done = teacher(command, "--url", url)
    assert monotonic() - began < 30  # the patience of a training is a minute
    sentence = f"no server listens at {url} (Connection refused); start one (`castaway teacher serve`)"
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1


def test_the_key_comes_from_the_environment_or_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)
    assert secret() == ""
    monkeypatch.setenv(KEY_VARIABLE, "one")
    assert secret() == "one"
    path = tmp_path / "key"
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))
    with pytest.raises(CastawayError, match=f"{KEY_FILE_VARIABLE} names .*which cannot be read"):
        secret()
    path.write_text("two\n")
    assert secret() == "two"
