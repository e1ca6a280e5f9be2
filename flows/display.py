"""What is seen of a walk without a server: where each stage writes, what it says right now, and how it ended.

On a terminal one table is kept up to date; elsewhere a line says that a stage started or ended, and every half minute
how far it is.
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

EVERY = 30.0
"""Seconds between two lines about a stage that runs, where there is no terminal."""
QUOTED = 15
"""Lines of a failed stage's log that are shown."""
WIDTH = 120
"""Of what a stage says, where there is no terminal."""

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def log_path(root: Path, address: str) -> Path:
    """Where a stage writes what it has to say."""
    return root / "scratch" / "logs" / f"{address.replace('/', '_')}.log"


def new_log(root: Path, address: str) -> Path:
    """The same file, empty: it is about one run."""
    path = log_path(root, address)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines that say something; of one that was written over, as a progress bar is, the last state."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            text = ESCAPE.sub("", file.read().decode(errors="replace"))
    except OSError:
        return []
    states = ([state.rstrip() for state in line.split("\r") if state.strip()] for line in text.split("\n"))
    return [line[-1] for line in states if line][-count:]


def last_text(log: Path) -> str:
    """What the stage says right now."""
    return "".join(last_lines(log, 1)).strip()


class Display:
    """Shows the stages that run while this is entered, and a line for each that ended."""

    def __init__(self, root: Path) -> None:
        """Nothing is shown before the `with`."""
        self._root = root
        self._running: dict[str, float] = {}
        """When each began; replaced and never changed, for another thread looks at it."""
        self._console = Console()
        terminal = sys.stdout.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        if terminal:
            live = Live(console=self._console, get_renderable=self.table, refresh_per_second=2, transient=True)
            self._live = live
        self._over = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        else:
            self._teller.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        self._over.set()

    def started(self, step: Step) -> None:
        """The stage runs from now on."""
        self._running = {**self._running, step.address: time.monotonic()}
        if not self._live:
            print(f"{step.address}  started", flush=True)

    def ended(self, outcome: Outcome) -> None:
        """The stage runs no more, or never did."""
        address = outcome.step.address
        self._running = {name: began for name, began in self._running.items() if name != address}
        if self._live:
            self._live.refresh()
        if outcome.state == "Skipped":
            print(f"{address}  Skipped  {outcome.message}", flush=True)
            return
        print(f"{address}  {outcome.state}  {outcome.seconds:.1f} s", flush=True)
        if outcome.state == "Failed":
            log = log_path(self._root, address)
            quoted = "".join(f"    {line}\n" for line in last_lines(log, QUOTED))
            place = f"{log.relative_to(self._root)} says all of it\n" if quoted else ""
            print(f"  {outcome.message}\n{quoted}{place and '  ' + place}", end="", flush=True)

    def table(self) -> Table:
        """The stages that run: which, for how long, and what each says."""
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for address, began in self._running.items():
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            said = last_text(log_path(self._root, address))
            table.add_row(Text(address), f"{minutes}:{seconds:02}", Text(said, style="dim"))
        return table

    def _tell(self) -> None:
        while not self._over.wait(EVERY):
            for address, began in self._running.items():
                said = last_text(log_path(self._root, address))[:WIDTH]
                print(f"{address}  {time.monotonic() - began:.0f} s  {said}", flush=True)
