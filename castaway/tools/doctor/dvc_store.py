"""DVC's cache, where outputs are kept, and its remote, where they are shared."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from castaway.errors import CastawayError
from castaway.tools.doctor.asking import get, run
from castaway.tools.doctor.finding import Finding, failed, ok, warning

MEND = "change it with `dvc remote modify`; a build does not need it, `dvc push` and `dvc pull` do"


def dvc_store(root: Path) -> list[Finding]:
    """Two findings: about the cache, and about the remote."""
    if not (root / ".dvc").is_dir():
        return [failed("DVC cache", f"there is no .dvc in {root.resolve()}", "run in a clone, or give --root")]
    try:
        # A line for each setting, with absolute paths; of the system, the user, the repository and this clone, and the
        # later ones hold.
        lines = run([sys.executable, "-m", "dvc", "config", "--list"], root).splitlines()
    except CastawayError as error:
        return [failed("DVC cache", str(error), "run `make setup`, or mend .dvc/config")]
    settings = {name: value for name, _, value in (line.partition("=") for line in lines)}
    return [cache(Path(settings.get("cache.dir") or root / ".dvc" / "cache").resolve()), remote(settings)]


def cache(folder: Path) -> Finding:
    """Whether the cache can be written to, and what is free there."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        return failed(
            "DVC cache", f"{folder} cannot be written to", "change its permissions, or move it with `dvc cache dir`"
        )
    state = "" if there == folder else " is not there yet, the first stage makes it;"
    return ok("DVC cache", f"{folder}{state} {shutil.disk_usage(there).free / 1e9:.1f} GB free")


def remote(settings: Mapping[str, str]) -> Finding:
    """Whether the default remote can be reached, if that can be told quickly."""
    name = settings.get("core.remote")
    if not name:
        return ok("DVC remote", "none: outputs stay on this machine")
    url = settings.get(f"remote.{name}.url", "")
    if not url:
        return warning("DVC remote", f"core.remote is {name}, which has no URL", MEND)
    if url.startswith(("http://", "https://")):
        try:
            get(url)
        except CastawayError as error:
            return warning("DVC remote", f"{name} at {url} does not answer ({error})", MEND)
        return ok("DVC remote", f"{name} at {url} answers")
    if urlsplit(url).scheme:
        return ok("DVC remote", f"{name} at {url}, which the doctor does not ask")
    if not Path(url).is_dir():
        return warning("DVC remote", f"{name} at {url}, which does not exist", MEND)
    if not os.access(url, os.W_OK):
        return warning("DVC remote", f"{name} at {url}, which cannot be written to", MEND)
    return ok("DVC remote", f"{name} at {url}")
