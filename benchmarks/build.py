"""Times whole builds: on an idle machine, and while another process keeps a core busy.

    python -m benchmarks.build           both; an hour and a half on two cores
    python -m benchmarks.build idle      one of them; what was measured of the other is kept

A build begins with a clone of the last commit without anything built, and is what `make repro` does there. The figures
are saved in benchmarks/build.json, and the table in benchmarks/build.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil

from castaway.config.errors import CastawayError
from castaway.metrics.built import built, stages_of
from castaway.metrics.markdown import table

ROOT = Path(__file__).parents[1]
KINDS = ("idle", "busy")
BUSY = 0.5
"""A machine with more cores in use does not count as idle."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.build", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("kind", nargs="?", choices=KINDS, help="both without it")
    options = top.parse_args(arguments)
    try:
        for kind in [options.kind] if options.kind else KINDS:
            print(f"{kind} ...", flush=True)
            with tempfile.TemporaryDirectory(prefix="castaway-build-") as folder:
                save(kind, measured(kind, Path(folder) / "castaway"))
    except CastawayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    (ROOT / "benchmarks" / "build.md").write_text(text_of(known()), "utf-8")
    return 0


def measured(kind: str, clone: Path) -> dict[str, Any]:
    """The figures of one build: its seconds, and those of each stage.

    Args:
        kind: one of `KINDS`.
        clone: the folder to clone into.

    Raises:
        CastawayError: the machine is not idle, or the build failed.
    """
    count = psutil.cpu_count() or 1
    used = count - idle_cores()
    if used > BUSY:
        raise CastawayError(f"{used:.1f} of {count} cores are in use; end what uses them, and measure again")
    git(ROOT, "clone", "--quiet", str(ROOT), str(clone))
    # With a store of its own, as any clone.
    variables = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    began = time.monotonic()
    with neighbour() if kind == "busy" else nullcontext():
        command = [sys.executable, "-m", "flows", "pipeline"]
        status = subprocess.run(command, cwd=clone, env=variables, check=False).returncode
    if status:
        raise CastawayError(f"the build ended with {status}; see the messages above")
    return {
        "commit": git(clone, "rev-parse", "HEAD"),
        "params": git(clone, "rev-parse", "HEAD:params.yaml"),
        "machine": f"{platform.machine()}, {count} cores",
        "seconds": round(time.monotonic() - began, 3),
        "stages": stage_seconds(clone),
    }


def idle_cores() -> float:
    """How many cores are idle, averaged over a second; other processes and virtual machines count as load."""
    before, began = psutil.cpu_times().idle, time.monotonic()
    time.sleep(1)
    return float(psutil.cpu_times().idle - before) / (time.monotonic() - began)


@contextmanager
def neighbour() -> Iterator[None]:
    """Context in which another process keeps a core busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def stage_seconds(clone: Path) -> dict[str, float]:
    """The seconds of each stage, by its address, from the run records."""
    made = [(stage, path.name) for path in sorted((clone / "data").iterdir()) for stage in stages_of(clone, path.name)]
    return {f"{stage}@{run}": float(built(clone, run, stage).record["seconds"]) for stage, run in made}


def save(kind: str, figures: dict[str, Any]) -> None:
    """Keep the figures of one build next to those of the other, if that was built from the same params.yaml."""
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
        lines.append(f"- with a process that keeps one core busy: {ratio:.2f} times as long")
    return "\n".join([*lines, "", table(["stage", *kinds], rows), ""])


def minutes(seconds: float | None) -> str:
    """Seconds as minutes and seconds; a dash for none."""
    return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
