"""The whole report: every question is answered, in time, as lines and as data, and nothing is changed."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.doctor.fits import Fit
from castaway.tools.doctor.memory import Estimated
from castaway.tools.doctor.report import Report, answered, questions
from tests.miniature import make_clone, set_params

ROOT = Path(__file__).parents[4]
SUBJECTS = [
    *("Python", "packages", "params.yaml", "device", "cores", "memory", "disk"),
    *("port 5000", "port 4200", "port 8000", "base games", "base answers", "teacher"),
    *("Prefect", "MLflow", "DVC cache", "DVC remote", "git"),
]


def raising(error: Exception) -> list[Finding]:
    raise error


def test_a_question_that_hangs_or_breaks_is_an_answer_too() -> None:
    never = threading.Event()
    report = answered(
        {
            "good": lambda: [ok("good", "there")],
            "hung": lambda: [ok("hung", str(never.wait()))],
            "refused": lambda: raising(CastawayError("it is not there; put it there")),
            "broken": lambda: raising(ZeroDivisionError("division by zero")),
            "memory": lambda: Estimated([warning("memory", "little", "stop others")], [Fit("demo", True, "")]),
        },
        seconds=0.5,
    )
    assert [(one.subject, one.state, one.found) for one in report.findings] == [
        ("good", "ok", "there"),
        ("hung", "failed", "no answer within 0.5 seconds"),
        ("refused", "failed", "it is not there"),
        ("broken", "failed", "ZeroDivisionError: division by zero"),
        ("memory", "warning", "little"),
    ]
    assert all(one.remedy for one in report.findings if one.state != "ok")
    assert report.findings[2].remedy == "put it there"
    assert not report.healthy and [one.name for one in report.profiles] == ["demo"]


def test_lines_and_data_say_the_same() -> None:
    fits = [Fit("demo", True, ""), Fit("llama", False, "needs a GPU of the kind mi300x")]
    report = Report([ok("disk", "enough"), warning("git", "changed", "commit")], fits)
    assert report.healthy
    assert report.text().splitlines() == [
        "ok       disk  enough",
        "warning  git   changed",
        "               -> commit",
        "",
        "This host can run these profiles, by estimate: demo.",
        "Not llama: needs a GPU of the kind mi300x.",
    ]
    assert json.loads(json.dumps(report.data()))["findings"][1] == {
        "subject": "git",
        "state": "warning",
        "found": "changed",
        "remedy": "commit",
    }
    assert not Report([failed("disk", "none", "free some")], []).healthy
    assert Report([ok("disk", "enough")], []).text().endswith("is unknown.")


def test_wrong_parameters_are_told_and_the_rest_is_asked_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("seed: 1\n")
    asked = questions(tmp_path)
    assert list(asked) == ["packages", "params.yaml", "Prefect", "MLflow", "DVC cache", "git"]
    found = answered({"params.yaml": asked["params.yaml"]}, 5).findings[0]
    assert found.state == "failed" and "castaway params" in found.remedy


def castaway(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "castaway.cli.main", "doctor", *arguments, "--root", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def content(root: Path) -> dict[Path, int]:
    """Every file and folder with the time of its last change."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


@pytest.mark.slow
def test_a_clone_is_examined_and_not_changed(tmp_path: Path, free: int) -> None:
    make_clone(tmp_path / "clone")
    before = content(tmp_path / "clone")
    done = castaway(tmp_path / "clone", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [one["subject"] for one in report["findings"]] == SUBJECTS and report["healthy"]
    assert {one["name"] for one in report["profiles"]} == {path.stem for path in (ROOT / "profiles").glob("*.yaml")}
    assert next(one["name"] for one in report["profiles"] if one["fits"]) == "demo"
    assert content(tmp_path / "clone") == before

    set_params(tmp_path / "clone", {"teacher.kind": "openai", "teacher.url": f"http://127.0.0.1:{free}/v1"})
    done = castaway(tmp_path / "clone", PREFECT_API_URL=f"http://127.0.0.1:{free}/api")
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("failed")] == ["teacher", "Prefect"]
    assert any(line.startswith("warning  git") for line in lines)
