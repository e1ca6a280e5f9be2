"""Builds the runs of a profile, a complete file of parameters, in a copy of the repository, and shows their results.

    python -m flows profile demo                          profiles/demo.yaml, in scratch/demo, as `make demo` does
    python -m flows profile smollm2 evaluate@strictbot    only what these stages need
    python -m flows profile FILE                          any other complete file of parameters

`castaway profile NAME` shows what a profile changes and needs. One that cannot fit into the memory of this host is
refused before anything is built.

It works in a copy of the repository in `scratch/NAME` and writes nothing elsewhere. The copy has its own DVC cache, so
a second call builds only what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

from castaway.config.params import Params
from castaway.datasets.episodes import read_episode
from castaway.errors import CastawayError
from castaway.metrics.cells import Figures, figure, from_file, share
from castaway.metrics.markdown import percent, table
from castaway.metrics.policies import POLICIES
from castaway.metrics.results import intervals_apart
from castaway.tasks.registry import read_params
from castaway.tools.profiles.files import profile_path
from castaway.tools.transcript import episode_text
from castaway.tools.view import view_of
from flows import closure, environment
from flows.display import Display, new_log
from flows.process import interruptible

FOLDER = Path("scratch")
CODE = ("castaway", "flows", "stages")
"""Folders whose content DVC hashes: files that are no longer in the repository must not stay in the copy."""
FINAL = list(POLICIES)[-1]
"""The policy whose episode is shown."""
BUILT = ("dvc.lock", "data")
"""Outputs, in the repository as in the copy. They are not copied."""
FOREIGN = ("DVC_", "MLFLOW_", "PREFECT_", "CASTAWAY_")
"""Prefixes of environment variables that could name servers and stores of the user."""


def main(root: Path, name: str, targets: Sequence[str] = ()) -> int:
    """Update the copy, build it, and print the results.

    Args:
        root: the root of the repository.
        name: of a file in `profiles/` without its ending, or the path of a complete file of parameters.
        targets: the stages to build, with all that they need; none for all.

    Returns:
        The exit status, 0.

    Raises:
        CastawayError: a file is missing or invalid, a stage does not fit into the memory, or a stage failed.
    """
    chosen = profile_path(name, root)
    place = root / FOLDER / chosen.stem
    prepare(root, place, chosen)
    params = read_params(place / "params.yaml")
    check_fit(params, place, targets)
    print(f"Building the runs of {shown(chosen)} in a copy of the repository, {shown(place)}\n")
    ran, seconds = build(place, params, targets)
    print(f"\nBuilt in {seconds:.0f} seconds.\n" if ran else "\nEverything is up to date, nothing was built.\n")
    for run in params.tasks:
        if (place / "data" / run / "metrics" / "evaluate.json").exists():
            print(f"{results(place, run)}\n")
    print(what_next(place, params))
    return 0


# The copy ------------------------------------------------------------------------------------------------------------


def prepare(root: Path, place: Path, profile: Path) -> None:
    """Create or update the copy: the files in git, the parameters, and a dvc.yaml for them.

    Raises:
        CastawayError: the repository is no git repository.
    """
    copy_files(root, place)
    shutil.copyfile(profile, place / "params.yaml")
    # Git ignores the folder of the copy. DVC would refuse to work there if it used git.
    (place / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n", "utf-8")
    log = new_log(place, "closure")
    with log.open("w", encoding="utf-8") as file, redirect_stdout(file):
        closure.main(place, write=True)


def check_fit(params: Params, place: Path, targets: Sequence[str]) -> None:
    """Stop before anything is built if a stage needs more memory than this host or its GPU has.

    Raises:
        CastawayError: it does; the sentence names the stage, what it needs, what there is, and what to change.
    """
    runs = {target.partition("@")[2] for target in targets} or set(params.tasks)
    tasks = {run: block for run, block in params.tasks.items() if run in runs}
    # In a process of its own: torch would stay in the memory of this one during the whole build.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        told = pool.submit(_misfit, params.model_copy(update={"tasks": tasks}), place).result()
    if told:
        raise CastawayError(told)


def _misfit(params: Params, place: Path) -> str | None:
    from castaway.tools.profiles.host import misfit
    from castaway.tools.profiles.stages import needs

    return misfit(needs(params, place))


def copy_files(root: Path, place: Path) -> None:
    """Copy the files that git tracks, and new ones that it does not ignore, if they have changed."""
    names = {name for name in files_of_git(root) if Path(name).parts[0] not in BUILT and (root / name).is_file()}
    for name in names:
        source, target = root / name, place / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for path in [path for folder in CODE for path in (place / folder).rglob("*") if path.is_file()]:
        if path.relative_to(place).as_posix() not in names and path.suffix != ".pyc":
            path.unlink()


def files_of_git(root: Path) -> list[str]:
    """Paths of the tracked files, and of untracked ones that are not ignored.

    Raises:
        CastawayError: the folder is in no git repository.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise CastawayError(f"git cannot list the files in {root}, which a profile copies; use a git clone") from None
    return list(filter(None, done.stdout.split("\0")))


# The build -----------------------------------------------------------------------------------------------------------


def build(place: Path, params: Params, targets: Sequence[str] = ()) -> tuple[int, float]:
    """Build the stages in the copy, all of them or the targets with what they need.

    Returns:
        The number of stages that ran, and the time in seconds.

    Raises:
        CastawayError: a stage failed.
    """
    from flows.pipeline import plan
    from flows.ready import require_devices
    from flows.reproduce import run_step
    from flows.turn import turn
    from flows.walk import cores, walk

    began = monotonic()
    isolate(place)
    # DVC names stages relative to the current folder.
    with chdir(place):
        steps = plan(place, targets)
        require_devices(place, steps)
        with interruptible(), turn(place), Display(place, len(steps)) as display:
            outcomes = walk(
                steps,
                lambda step, _: run_step(place, step, {}, log=new_log(place, step.address)),
                cores(params),
                watchers=[display],
            )
    failed = [outcome.message for outcome in outcomes if outcome.state == "Failed"]
    if not all(outcome.built for outcome in outcomes):
        raise CastawayError(f"in {shown(place)}, {'; '.join(failed)}; the next call continues with this stage")
    return sum(outcome.state == "Ran" for outcome in outcomes), monotonic() - began


def isolate(place: Path) -> None:
    """Make this process and its children use only the stores of the copy, and no Prefect server."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    environment.silence(place)


# The results ---------------------------------------------------------------------------------------------------------


def results(place: Path, run: str) -> str:
    """The table of a run, and one of its held-out episodes, played by the final policy."""
    folder = place / "data" / run
    told: str = from_file(folder / "metrics" / "evaluate.json", table_of)
    episodes = sorted((folder / "evaluate" / FINAL).glob("*.jsonl"))[:1]
    return "\n\n".join([told, *(episode_text(read_episode(path)) for path in episodes)])


def table_of(evaluate: Figures) -> str:
    """A row for each policy, and whether PPO changed the success rate by more than chance.

    Raises:
        CastawayError: a figure is missing.
    """
    header = ["policy", "success (95 %)", "invalid replies", "held-out episodes"]
    rows = [
        [policy, share(found, "success_rate"), percent(found["invalid_rate"]), str(found["episodes"])]
        for policy, found in ((policy, figure(evaluate, policy)) for policy in POLICIES)
    ]
    # A task's success need not be everything: STRICTBOT's is an answer as strict as the question deserves.
    if all("factual_accuracy" in evaluate[policy] for policy in POLICIES):
        header.append("correct facts")
        rows = [[*row, percent(evaluate[row[0]]["factual_accuracy"])] for row in rows]
    sft, ppo = evaluate["sft"], evaluate["ppo"]
    change = f"{percent(sft['success_rate'])} after SFT, {percent(ppo['success_rate'])} after PPO"
    verdict = "the intervals do not overlap" if intervals_apart(sft, ppo) else "the intervals overlap: perhaps chance"
    return f"{table(header, rows)}\n\n{change}: {verdict}."


def what_next(place: Path, params: Params) -> str:
    """Commands to type next."""
    folder = shown(place)
    talkative = [run for run, one in params.tasks.items() if view_of(one.task).chats]
    lines = [
        (". .venv/bin/activate", "so that the shell finds castaway and dvc"),
        *((f"castaway chat --run {run} --root {folder}", "talk to this model; /quit ends") for run in talkative),
        (f"make ui ROOT={folder}", "parameters, curves and charts of this build, in MLflow"),
        ("make repro", "the full build, as params.yaml describes it"),
    ]
    width = max(len(command) for command, _ in lines)
    return "\n".join(["What to type next:", "", *(f"  {command:<{width}}   # {why}" for command, why in lines)])


def shown(path: Path) -> str:
    """The path, relative to the current folder if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
