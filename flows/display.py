"""Shows the progress of a build.

On a terminal, a line for each running stage is kept up to date: its time, and the last that it said of its own
progress. Otherwise a line is printed when a stage starts or ends, and one with its progress every half minute.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from castaway.tools.summary import WIDTH, reason
from flows.logs import last_lines, last_text, log_path
from flows.steps import Outcome, Step

PROGRESS_INTERVAL = 30.0  # time between two lines about a running stage without a terminal, in seconds
QUOTED_LINES = 15  # of the log of a stage that failed


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
        self._live: Live | None = None
        if sys.stdout.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, get_renderable=self.table, refresh_per_second=2, transient=True)
        self._over = threading.Event()
        self._printer = threading.Thread(target=self._print_progress, daemon=True)

    def __enter__(self) -> Self:
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
        self._running = {**self._running, step.address: time.monotonic()}
        if not self._live:
            print(f"{step.address}  started", flush=True)

    def ended(self, outcome: Outcome) -> None:
        address = outcome.step.address
        self._running = {name: began for name, began in self._running.items() if name != address}
        self._ended += 1
        count = f"{self._ended}/{self._total}  " if self._total else ""
        if self._live:
            self._live.refresh()
        line = f"{count}{address}  {outcome.state}"
        if outcome.state != "Skipped":
            line += f"  {outcome.seconds:.1f} s"
        if outcome.message and outcome.state != "Failed":
            line += f"  {reason(outcome.message, address, WIDTH - len(line) - 2)}"
        print(line, flush=True)
        if outcome.state == "Failed":
            log = log_path(self._root, address)
            quoted = "".join(f"    {line}\n" for line in last_lines(log, QUOTED_LINES))
            place = f"the full log is {log.relative_to(self._root)}\n" if quoted else ""
            print(f"  {outcome.message}\n{quoted}{place and '  ' + place}", end="", flush=True)

    def table(self) -> Table:
        """A line for each running stage: its name, the time since its start, and its progress."""
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
                if said := last_text(log_path(self._root, address)):
                    print(f"{address}  {time.monotonic() - began:.0f} s  {said}"[:WIDTH], flush=True)
