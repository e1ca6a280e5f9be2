"""The address of the user's Prefect server, found without Prefect, whose import takes seconds."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

VARIABLE = "PREFECT_API_URL"
"""Environment variable and setting of a profile."""


def address() -> str:
    """The address, from PREFECT_API_URL or the user's active Prefect profile; empty if neither names a server."""
    return os.environ.get(VARIABLE, _profile().get(VARIABLE, "")).rstrip("/")


def _profile() -> dict[str, str]:
    """The settings of the active profile; empty without one."""
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect")
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        found = tomllib.loads(path.read_text("utf-8"))
        profile = found["profiles"][os.environ.get("PREFECT_PROFILE") or found["active"]]
    except (OSError, ValueError, KeyError):
        return {}
    return {name: str(value) for name, value in profile.items()}
