"""Installed packages beside the locks, with packages that Python really finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

from castaway.tools.doctor.packages import LOCKS, differing, locked, packages, python_and_packages

ROOT = Path(__file__).parents[4]
ASK = """
import json, sys
from pathlib import Path
from castaway.tools.doctor.packages import packages
found = packages(Path(sys.argv[1]))
print(json.dumps([found.state, found.found, found.remedy]))
"""


def test_this_environment_is_the_locked_one() -> None:
    python, found = python_and_packages(ROOT)
    assert python.state == "ok" and python.found.startswith(".".join(map(str, sys.version_info[:3])))
    assert found.state == "ok", found
    assert int(found.found.split(",")[0]) > 200


def test_a_lock_is_read_with_its_conditions() -> None:
    text = """\
# A comment
here==1.0 \\
    --hash=sha256:0
    # via castaway
with-extra[one]==2.0 ; sys_platform != 'nowhere' \\
    --hash=sha256:0
elsewhere==3.0 ; sys_platform == 'nowhere' \\
    --hash=sha256:0
"""
    assert locked(text) == {"here": "1.0", "with-extra": "2.0"}


def test_builds_of_one_version_are_equal_and_others_are_not() -> None:
    from importlib.metadata import version

    torch = version("torch").partition("+")[0]
    assert differing({"torch": f"{torch}+rocm7.2", "pytest": "0.1", "nobody-has-this": "1"}) == (
        ["nobody-has-this"],
        {"pytest": (version("pytest"), "0.1")},
    )


def test_a_wrong_version_in_the_environment_is_a_warning(tmp_path: Path) -> None:
    """An environment whose first folder of packages has an older typer and psutil."""
    for name in ("typer", "psutil"):
        metadata = tmp_path / f"{name}-0.0.1.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    told = subprocess.check_output([sys.executable, "-c", ASK, str(ROOT)], env=environment, text=True)
    state, found, remedy = json.loads(told)
    assert state == "warning" and "make setup" in remedy
    assert "2 of " in found and "psutil 0.0.1 instead of " in found and "typer 0.0.1 instead of " in found


def test_a_missing_package_or_lock_has_failed(tmp_path: Path) -> None:
    assert packages(tmp_path).state == "failed" and "does not exist" in packages(tmp_path).found
    (tmp_path / "setup").mkdir()
    (tmp_path / LOCKS[0]).write_text("".join(f"nobody-has-{n}==1.0 \\\n    --hash=sha256:0\n" for n in range(6)))
    (tmp_path / LOCKS[1]).write_text("")
    found = packages(tmp_path)
    assert found.state == "failed" and found.remedy == "run `make setup`"
    assert found.found.startswith("6 of 6 are missing: nobody-has-0, ") and found.found.endswith(" and 2 more")
