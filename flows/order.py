"""An order: a stage that a driver wants to have built by another machine, and how it is built in a clone there.

What travels besides the order goes through DVC's remote. The driver pushes the inputs; the other machine pulls them,
runs the stage, and pushes the entry of DVC's run-cache with the outputs; the driver restores them from it, as DVC does
with everything that was built before. So both machines end with the same bytes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from castaway.errors import CastawayError
from flows import declared
from flows.display import last_lines, new_log
from flows.report import Outcome, Step
from flows.reproduce import dvc, run_step

SENT = ("params.yaml", "dvc.lock")
"""The files whose content travels with the order; everything else has to be in the commit."""
TRANSFER_SECONDS = 3600.0
"""How long DVC may take to push or pull."""


@dataclass(frozen=True)
class Order:
    """A stage with all that decides what it builds, apart from its inputs."""

    address: str
    revision: str
    """The commit of the code."""
    files: dict[str, str]
    """The content of `SENT`."""
    force: bool = False
    """Whether the stage runs even if nothing changed."""


def order_for(root: Path, address: str, *, force: bool) -> Order:
    """The order of a stage, which may have to run even if nothing changed.

    Raises:
        CastawayError: there is code that is not committed, which another machine cannot have.
    """
    excluded = [f":(exclude){name}" for name in (*SENT, "data")]
    changed = git(root, "status", "--porcelain", "--", ".", *excluded).splitlines()
    if changed:
        raise CastawayError(
            f"{address} cannot be sent elsewhere: {changed[0][3:]} is not committed; commit and push it"
        )
    files = {name: (root / name).read_text("utf-8") for name in SENT if (root / name).exists()}
    return Order(address, git(root, "rev-parse", "HEAD").strip(), files, force)


def push_inputs(root: Path, step: Step) -> None:
    """Push what the stage reads to DVC's remote.

    Raises:
        CastawayError: DVC could not.
    """
    if step.reads:
        transfer(root, "push", *step.reads)


def carry_out(root: Path, order: Order) -> Outcome:
    """Build the stage of an order in the clone at `root`, and push what came of it.

    Raises:
        CastawayError: the clone has changes of its own, lacks the commit, or cannot pull or push; or the stage failed.
    """
    own = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)data", *_excluded())
    if own:
        raise CastawayError(
            f"{root} has changes of its own ({own.splitlines()[0][3:]}); a worker needs a clone for itself"
        )
    if not _has(root, order.revision):
        git(root, "fetch", "--quiet", "--all")
    if not _has(root, order.revision):
        raise CastawayError(
            f"commit {order.revision[:10]} is not in {root}, nor where it fetches from; push it there, and build again"
        )
    git(root, "checkout", "--quiet", "--force", "--detach", order.revision)
    for name, text in order.files.items():
        (root / name).write_text(text, "utf-8")
    one = declared.load(root, order.address)
    reads = [str(dep.def_path) for dep in one.stage.deps if str(dep.def_path).startswith("data/")]
    if reads:
        transfer(root, "pull", *reads)
    log = new_log(root, order.address)
    step = Step(one.address, (), one.device, one.timeout_seconds, tuple(one.outs))
    outcome = run_step(root, step, {}, force=order.force, log=log)
    if not outcome.built:
        raise CastawayError(f"{outcome.message}: {' | '.join(last_lines(log, 3))}")
    push_outputs(root, order.address)
    return outcome


def push_outputs(root: Path, address: str) -> None:
    """Push a stage's entry of the run-cache, and all outputs that it names.

    `dvc push --run-cache` leaves out those that dvc.yaml does not cache: metrics, curves and run records.

    Raises:
        CastawayError: the remote did not take them.
    """
    from dvc.exceptions import DvcException

    stage = declared.load(root, address).stage
    cache = stage.repo.stage_cache
    try:
        cache.push(None)
        built = cache._create_stage(cache._load(stage))
        failed = [one for objs in built.get_used_objs().values() for one in stage.repo.cloud.push(objs).failed]
    except DvcException as error:
        raise CastawayError(f"{address} was built, and could not be pushed: {' '.join(str(error).split())}") from None
    if failed:
        raise CastawayError(f"{address} was built, and DVC's remote did not take {len(failed)} of its files")


def transfer(root: Path, *arguments: str) -> None:
    """Have DVC push to its remote or pull from it.

    Raises:
        CastawayError: it could not.
    """
    log = new_log(root, f"dvc {arguments[0]}")
    if dvc(root, arguments, {}, log).wait(TRANSFER_SECONDS):
        raise CastawayError(f"`dvc {' '.join(arguments)}` failed in {root}: {' | '.join(last_lines(log, 2))}")


def git(root: Path, *arguments: str) -> str:
    """What git prints.

    Raises:
        CastawayError: it failed.
    """
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CastawayError(f"`git {arguments[0]}` failed in {root}: {' '.join(done.stderr.split())[-200:]}")
    return done.stdout


def _has(root: Path, revision: str) -> bool:
    command: Sequence[str] = ["git", "cat-file", "-e", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def _excluded() -> list[str]:
    return [f":(exclude){name}" for name in SENT]
