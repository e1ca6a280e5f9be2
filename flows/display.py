"""Shows the progress of a pipeline that runs without a Prefect server, and names the log file of each stage.

On a terminal, a table of the running stages is kept up to date. Otherwise a line is printed when a stage starts or
ends, and one with its progress every half minute.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flows.report import Outcome, Step

PROGRESS_INTERVAL = 30.0
"""Time between two lines about a running stage without a terminal, in seconds."""
QUOTED_LINES = 15
"""Number of lines of a failed stage's log that are shown."""
WIDTH = 120
"""Maximum length of a quoted line without a terminal, in characters."""

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Escape sequences of a terminal, for colours and cursor movements."""


def log_path(root: Path, address: str) -> Path:
    """Path of the log file of a stage."""
    return root / "scratch" / "logs" / f"{address.replace('/', '_')}.log"


def new_log(root: Path, address: str) -> Path:
    """Path of the log file of a stage, emptied: it contains only one execution."""
    path = log_path(root, address)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def last_lines(log: Path, count: int) -> list[str]:
    """The last non-empty lines of a log. Of a line that was overwritten, like a progress bar, it is the last state."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            text = ESCAPE.sub("", file.read().decode(errors="replace"))
    except OSError:
        return []
    states = ([state.rstrip() for state in line.split("\r") if state.strip()] for line in text.split("\n"))
    return [line[-1] for line in states if line][-count:]


def last_text(log: Path) -> str:
    """The last line of a log."""
    return "".join(last_lines(log, 1)).strip()


class Display:
    """Shows the running stages, and prints a line for each that has ended, while its context is entered."""

    def __init__(self, root: Path, total: int = 0) -> None:
        """Prepare the display; `with` starts it. With a `total`, the stages that have ended are counted."""
        self._root = root
        self._total = total
        self._ended = 0
        self._running: dict[str, float] = {}
        """Start time of each running stage. Replaced and never changed in place, because another thread reads it."""
        self._console = Console()
        terminal = sys.stdout.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        if terminal:
            live = Live(console=self._console, get_renderable=self.table, refresh_per_second=2, transient=True)
            self._live = live
        self._over = threading.Event()
        self._printer = threading.Thread(target=self._print_progress, daemon=True)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        else:
            self._printer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        self._over.set()

    def started(self, step: Step) -> None:
        """Show that a stage has started."""
        self._running = {**self._running, step.address: time.monotonic()}
        if not self._live:
            print(f"{step.address}  started", flush=True)

    def ended(self, outcome: Outcome) -> None:
        """Show that a stage has ended, or was skipped."""
        address = outcome.step.address
        self._running = {name: began for name, began in self._running.items() if name != address}
        self._ended += 1
        count = f"{self._ended}/{self._total}  " if self._total else ""
        if self._live:
            self._live.refresh()
        if outcome.state == "Skipped":
            print(f"{count}{address}  Skipped  {outcome.message}", flush=True)
            return
        print(f"{count}{address}  {outcome.state}  {outcome.seconds:.1f} s", flush=True)
        if outcome.state == "Failed":
            log = log_path(self._root, address)
            quoted = "".join(f"    {line}\n" for line in last_lines(log, QUOTED_LINES))
            place = f"the full log is {log.relative_to(self._root)}\n" if quoted else ""
            print(f"  {outcome.message}\n{quoted}{place and '  ' + place}", end="", flush=True)

    def table(self) -> Table:
        """A table of the running stages: address, time since the start, and last line of the log."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for address, began in self._running.items():
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            said = last_text(log_path(self._root, address))
            table.add_row(Text(address), f"{minutes}:{seconds:02}", Text(said, style="dim"))
        return table

    def _print_progress(self) -> None:
        while not self._over.wait(PROGRESS_INTERVAL):
            for address, began in self._running.items():
                said = last_text(log_path(self._root, address))[:WIDTH]
                print(f"{address}  {time.monotonic() - began:.0f} s  {said}", flush=True)
