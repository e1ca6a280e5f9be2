"""The new lines of a log that another process writes."""

from __future__ import annotations

from pathlib import Path

from flows.display import ESCAPE

LONGEST = 2000
"""Characters of a line that are kept."""
MOST = 65536
"""Bytes that are read at a time; of a stage that wrote more since, the beginning is left to the log file."""


class Tail:
    """Reads what was added to a log since the last time."""

    def __init__(self, path: Path) -> None:
        """Begin at the start of the log, which need not exist yet."""
        self._path = path
        self._place = 0

    def lines(self, *, unfinished: bool = False) -> list[str]:
        """The new lines; of a line that was overwritten, like a progress bar, the last state.

        Args:
            unfinished: also of a line that has no end yet.
        """
        try:
            with self._path.open("rb") as file:
                self._place = max(self._place, file.seek(0, 2) - MOST)
                file.seek(self._place)
                added = file.read(MOST)
        except OSError:
            return []
        if not unfinished:
            added = added[: added.rfind(b"\n") + 1]
        self._place += len(added)
        text = ESCAPE.sub("", added.decode(errors="replace"))
        states = ([state.rstrip() for state in line.split("\r") if state.strip()] for line in text.split("\n"))
        return [line[-1][:LONGEST] for line in states if line]
