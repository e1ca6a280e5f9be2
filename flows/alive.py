"""Marks a process, so that what it left open can be closed once it is known to have ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil


def mark() -> str:
    """This process as `HOST:PID:START`; the start is in ticks since the boot, so it does not jump as clocks do."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start(os.getpid())}"


def has_ended(mark: str) -> bool:
    """Whether the process is known to have ended; nothing is known of other hosts, and of a mark without a process."""
    host, _, rest = mark.partition(":")
    number, _, start = rest.partition(":")
    if host != socket.gethostname() or not number.isdecimal():
        return False
    return not runs(int(number)) or (bool(start) and _start(int(number)) != start)


def runs(number: int) -> bool:
    """Whether a process of this number runs; a zombie has ended."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _start(number: int) -> str:
    """Field 22 of `/proc/PID/stat`; empty where there is no such file. The name before it may contain spaces."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""
