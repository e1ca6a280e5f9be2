"""Python, and whether the installed packages are those that the locks name."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from castaway.tools.doctor.finding import Finding, failed, ok, warning

OLDEST, NEWEST = (3, 11), (3, 14)
"""The versions of Python that the lock was made for."""
LOCKS = ("setup/requirements.lock", "setup/torch.lock")
NAMED = 4
"""How many packages are named."""


def python_and_packages(root: Path) -> list[Finding]:
    """Two findings: about Python, and about the packages."""
    return [_python(), packages(root)]


def _python() -> Finding:
    found = f"{platform.python_version()} in {sys.prefix}"
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return ok("Python", found)
    return failed(
        "Python",
        f"{found}, expected {'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}",
        "remove .venv and run `make setup PYTHON=/path/to/one`",
    )


def packages(root: Path) -> Finding:
    """Whether each package that the locks name for this host is installed at that version."""
    paths = [root / name for name in LOCKS]
    if missing := [path for path in paths if not path.is_file()]:
        return failed("packages", f"{missing[0]} does not exist", "run in a clone of the repository, or give --root")
    wanted = {name: pinned for path in paths for name, pinned in locked(path.read_text("utf-8")).items()}
    absent, other = differing(wanted)
    if absent:
        return failed("packages", f"{len(absent)} of {len(wanted)} are missing: {_few(absent)}", "run `make setup`")
    if other:
        told = [f"{name} {found} instead of {pinned}" for name, (found, pinned) in other.items()]
        return warning(
            "packages",
            f"{len(other)} of {len(wanted)} differ from the locks: {_few(told)}",
            "run `make setup`; with other versions results may differ",
        )
    return ok("packages", f"{len(wanted)}, as {' and '.join(LOCKS)} name them")


def locked(text: str) -> dict[str, str]:
    """The versions that a lock pins, of the packages that this host needs."""
    found = {}
    for line in text.splitlines():
        if line[:1].isalnum():
            pin = Requirement(line.removesuffix("\\").strip())
            if pin.marker is None or pin.marker.evaluate():
                found[pin.name] = next(iter(pin.specifier)).version
    return found


def differing(wanted: Mapping[str, str]) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """The packages that are missing, and those of another version with the one found and the one wanted.

    Builds of one version, such as torch's for CPUs, CUDA and ROCm, count as equal.
    """
    absent, other = [], {}
    for name, pinned in wanted.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            absent.append(name)
            continue
        if Version(found).public != Version(pinned).public:
            other[name] = (found, pinned)
    return absent, other


def _few(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
