"""The state of git: run records name the commit that a stage ran from."""

from __future__ import annotations

from pathlib import Path

from castaway.errors import CastawayError
from castaway.tools.doctor.asking import run
from castaway.tools.doctor.finding import Finding, failed, ok, warning

BUILT = (":(exclude)dvc.lock", ":(exclude)data")
"""What a build writes is no change of the code."""


def repository(root: Path) -> list[Finding]:
    """One finding: the commit, and how many files differ from it."""
    # Without locks, git does not even refresh its index.
    git = ["git", "--no-optional-locks"]
    try:
        commit = run([*git, "rev-parse", "--short", "HEAD"], root).strip()
        changed = run([*git, "status", "--porcelain", "--untracked-files=no", "--", ".", *BUILT], root).splitlines()
    except CastawayError as error:
        return [failed("git", f"{root.resolve()} is no usable git clone: {error}", "build in a clone made by git")]
    if changed:
        names = ", ".join(line[3:] for line in changed[:3]) + (", ..." if changed[3:] else "")
        return [warning("git", f"{commit}, and {len(changed)} files differ from it: {names}", "commit before a build")]
    return [ok("git", f"{commit}, and no file differs from it")]
