"""The commit that a stage or the driver runs with."""

from __future__ import annotations

import subprocess
from pathlib import Path

CODE = ("castaway", "flows", "stages", "params.yaml", "dvc.yaml")
"""Where a file that git does not track can change what is built. Files that git ignores do not count."""
BUILT = (":(exclude)dvc.lock", ":(exclude)data")
"""Earlier stages have just written these, and they are not code."""


def revision(root: Path) -> str:
    """The current commit, with `+dirty` if tracked files differ from it or there is new code; `none` without git."""

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        except OSError:  # git is not installed
            return ""
        return done.stdout.strip()

    head = git("rev-parse", "--verify", "--quiet", "HEAD") or "none"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *BUILT)
    new = git("ls-files", "--others", "--exclude-standard", "--", *CODE)
    return f"{head}+dirty" if changed or new else head
