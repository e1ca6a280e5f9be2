"""What the doctor finds: one line about one subject, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed"]
"""`failed`: a build would stop, or lose what it records. `warning`: it would run, but see to it."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report."""

    subject: str
    """What was looked at, in a word or two."""
    state: State
    found: str
    """What is there."""
    remedy: str = ""
    """What to do, in one sentence; empty if nothing has to be done."""


def ok(subject: str, found: str) -> Finding:
    """Nothing has to be done."""
    return Finding(subject, "ok", found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """A build would run."""
    return Finding(subject, "warning", found, remedy)


def failed(subject: str, found: str, remedy: str) -> Finding:
    """A build would not run, or would lose what it records."""
    return Finding(subject, "failed", found, remedy)
