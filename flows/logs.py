"""The log file of each stage: where it is, what it says last, and what was added to it."""

import re
from pathlib import Path

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # escape sequences of a terminal, for colours and cursor movements
NOISE = re.compile(
    r"> |Running stage |Updating lock |To (track|enable) |Use `dvc |\s*(git add|dvc config) "
    r"|\s*warnings\.warn\(|.*Warning: |\s*\{'"
)
"""The beginning of lines in which DVC says what it does, Python what it warns of, and Transformers its figures."""
BAR = re.compile(r"(.*?):?\s*(\d+)%\|[^|]*\|\s*(\S+) \[[^<\]]*<?([^,\]]*)")
"""A progress bar of tqdm: what it is of, the percentage, the count, and the time that is left."""
LONGEST = 2000  # characters of a line that `Tail` keeps
MOST = 65536  # bytes that are read at a time; of a stage that wrote more since, the beginning is left to the log file


def log_path(root: Path, address: str) -> Path:
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
            file.seek(max(0, log.stat().st_size - MOST))
            return _shown(file.read())[-count:]
    except OSError:
        return []


def _shown(written: bytes) -> list[str]:
    text = ESCAPE.sub("", written.decode(errors="replace"))
    states = ([state.rstrip() for state in line.split("\r") if state.strip()] for line in text.split("\n"))
    return [line[-1] for line in states if line]


def last_text(log: Path) -> str:
    """What a stage said last of its own progress; of a progress bar, the figures."""
    said = next((line.strip() for line in reversed(last_lines(log, 50)) if not NOISE.match(line)), "")
    if bar := BAR.match(said):
        what, percentage, count, left = bar.groups()
        return f"{what} {percentage} %, {count}{f', {left} left' if left not in ('', '?') else ''}".strip()
    return said


class Tail:
    """Reads what was added to a log since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0

    def lines(self, *, unfinished: bool = False) -> list[str]:
        """The new lines as a terminal would show them; `unfinished` asks for the one that has no end yet as well."""
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
        return [line[:LONGEST] for line in _shown(added)]
