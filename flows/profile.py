"""Builds the runs of a profile, a complete file of parameters, in a copy of the repository, and shows their results.

    python -m flows profile demo                          profiles/demo.yaml, in scratch/demo, as `make demo` does
    python -m flows profile smollm2 evaluate@strictbot    only what these stages need
    python -m flows profile FILE                          any other complete file of parameters

`castaway profile NAME` shows what a profile changes and needs. One that cannot fit into the memory of this host is
refused before anything is built.

It works in a copy of the repository in `scratch/NAME` and writes nothing elsewhere. The copy has its own DVC cache, so
a second call builds only what is missing.
"""

import os
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from castaway.config.errors import CastawayError
from castaway.processes import environment
from castaway.processes.groups import interruptible
from castaway.tasks.registry import read_params
from castaway.tools.profiles import check_fit, prepare, profile_path
from castaway.tools.summary import next_commands, summary

FOLDER = Path("scratch")
FOREIGN = ("DVC_", "MLFLOW_", "PREFECT_", "CASTAWAY_")
"""Prefixes of environment variables that could name servers and stores of the user."""


def main(root: Path, name: str, targets: Sequence[str] = ()) -> int:
    """Update the copy of the repository, build all stages or the targets in it, and print the results; returns 0."""
    chosen = profile_path(name, root)
    place = root / FOLDER / chosen.stem
    prepare(root, place, chosen)
    params = read_params(place / "params.yaml")
    check_fit(params, place, targets)
    print(f"Building the runs of {shown(chosen)} in a copy, {shown(place)}\n")
    # These take a second, which a refusal is not worth.
    from flows.driver import require_built, run_build
    from flows.planned import Build

    for variable in [variable for variable in os.environ if variable.startswith(FOREIGN)]:
        del os.environ[variable]
    environment.use_host(place)
    # DVC names stages relative to the current folder.
    with chdir(place), interruptible():
        outcomes = run_build(Build.planned(place, targets, force=False, teacher=None))
    print(f"\n{summary(place, params, outcomes, list(next_commands(params, shown(place))))}")
    try:
        require_built(outcomes)
    except CastawayError as error:
        raise CastawayError(f"in {shown(place)}, {error}; the next call continues with this stage") from None
    return 0


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
