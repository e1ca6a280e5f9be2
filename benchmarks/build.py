"""Times whole builds: on an idle machine, and beside another busy process.

    python -m benchmarks.build           both; an hour and a half on two cores
    python -m benchmarks.build idle      one of them; what was measured of the other is kept
    python -m benchmarks.build idle --keep FOLDER    the same, and the built clone stays there
    python -m benchmarks.build busy --neighbour COMMAND    beside work of your own, such as a training

A build begins with a clone of the last commit without anything built, and is what `make repro` does there. The figures
are saved in benchmarks/build.json, and the table in benchmarks/build.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.seeds import environment, require_commit, run, status_of
from castaway.errors import CastawayError
from castaway.metrics.markdown import table
from flows.environment import idle_cores

ROOT = Path(__file__).parents[1]
KINDS = ("idle", "busy")
BUSY = 0.5
"""More than so many cores in use, and a machine does not count as idle."""
NEIGHBOUR = "while True: pass"
"""What the busy process does by default: it keeps one core occupied."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.build", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("kind", nargs="?", choices=KINDS, help="both without it")
    top.add_argument("--keep", type=Path, metavar="FOLDER", help="build in this new folder, and leave it there")
    top.add_argument("--neighbour", metavar="COMMAND", help="what runs beside the busy build; default: an endless loop")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        if options.keep and not options.kind:
            raise CastawayError(f"--keep needs one of {' and '.join(KINDS)}")
        for kind in [options.kind] if options.kind else KINDS:
            print(f"{kind} ...", flush=True)
            with nullcontext(options.keep) if options.keep else new_folder() as folder:
                save(kind, measured(kind, folder, options.neighbour))
        (ROOT / "benchmarks" / "build.md").write_text(text_of(known()), "utf-8")

    return status_of(work)


@contextmanager
def new_folder() -> Iterator[Path]:
    """Context with the path of a folder to be made, which is deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="castaway-build-") as folder:
        yield Path(folder) / "castaway"


def measured(kind: str, clone: Path, beside: str | None = None) -> dict[str, Any]:
    """The figures of one build: its seconds, and those of each stage.

    Args:
        kind: one of `KINDS`.
        clone: the folder to clone into.
        beside: the command of the busy process.

    Raises:
        CastawayError: the machine is not idle, the build failed, or the busy process ended before it.
    """
    count = psutil.cpu_count() or 1
    used = count - idle_cores()
    if used > BUSY:
        raise CastawayError(f"{used:.1f} of {count} cores are in use; end what uses them, and measure again")
    run(ROOT, "git", "clone", "--quiet", str(ROOT), str(clone))
    began = time.monotonic()
    with neighbour(beside) if kind == "busy" else nullcontext():
        # With a store of its own, as any clone.
        variables = {name: value for name, value in environment().items() if name != "MLFLOW_TRACKING_URI"}
        command = [sys.executable, "-m", "flows", "pipeline"]
        status = subprocess.run(command, cwd=clone, env=variables, check=False).returncode
    if status:
        raise CastawayError(f"the build ended with {status}; see the messages above")
    return {
        "commit": run(clone, "git", "rev-parse", "HEAD").strip(),
        "params": run(clone, "git", "rev-parse", "HEAD:params.yaml").strip(),
        "machine": f"{platform.machine()}, {count} cores",
        "seconds": round(time.monotonic() - began, 3),
        "stages": stage_seconds(clone),
        **({"neighbour": beside} if kind == "busy" and beside else {}),
    }


@contextmanager
def neighbour(command: str | None = None) -> Iterator[None]:
    """Context in which another process keeps a core busy.

    Args:
        command: of the shell; by default an endless loop.

    Raises:
        CastawayError: it ended before the context did, which was then not beside it.
    """
    chosen = command or f"exec {shlex.join([sys.executable, '-c', NEIGHBOUR])}"
    process = subprocess.Popen(chosen, shell=True, start_new_session=True)
    try:
        yield
        if process.poll() is not None:
            raise CastawayError(f"the neighbour ended before the build: {chosen}; give a command that runs longer")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stage_seconds(clone: Path) -> dict[str, float]:
    """The seconds of each stage, by its address, from the run records."""
    found = {}
    for path in sorted((clone / "data").glob("*/runs/*.json")):
        record = json.loads(path.read_text("utf-8"))
        found[f"{path.stem}@{path.parents[1].name}"] = float(record["seconds"])
    return found


def save(kind: str, figures: dict[str, Any]) -> None:
    """Keep the figures of one build beside those of the other, if that was built from the same params.yaml."""
    path = ROOT / "benchmarks" / "build.json"
    found = {other: one for other, one in known().items() if one.get("params") == figures["params"]}
    path.write_text(json.dumps({**found, kind: figures}, indent=1, sort_keys=True) + "\n", "utf-8")


def known() -> dict[str, dict[str, Any]]:
    """What was measured so far, by kind."""
    path = ROOT / "benchmarks" / "build.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def text_of(found: dict[str, dict[str, Any]]) -> str:
    """The page: the two builds, their ratio, and the time of each stage."""
    kinds = [kind for kind in KINDS if kind in found]
    addresses = sorted({address for kind in kinds for address in found[kind]["stages"]})
    rows = [["**all, side by side**", *(minutes(found[kind]["seconds"]) for kind in kinds)]]
    rows += [[address, *(minutes(found[kind]["stages"].get(address)) for kind in kinds)] for address in addresses]
    lines = ["# Time of a whole build", "", "Minutes:seconds; written by `python -m benchmarks.build`.", ""]
    lines += [f"- {kind}: {found[kind]['machine']}, commit {found[kind]['commit'][:10]}" for kind in kinds]
    if len(kinds) == len(KINDS):
        ratio = found["busy"]["seconds"] / found["idle"]["seconds"]
        beside = found["busy"].get("neighbour")
        what = f"`{beside}`" if beside else "a process that keeps one core busy"
        lines.append(f"- beside {what}: {ratio:.2f} times as long")
    return "\n".join([*lines, "", table(["stage", *kinds], rows), ""])


def minutes(seconds: float | None) -> str:
    """Seconds as minutes and seconds; a dash for none."""
    return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
