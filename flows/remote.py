"""Stages that workers of Prefect build on other machines: `pools` in host.yaml says which, prefect.yaml how.

The driver pushes what a stage reads to DVC's remote and starts a run of the deployment `stage/POOL`. A worker brings
its clone to the commit, pulls, builds, and pushes the stage's entry of DVC's run-cache; the driver restores it from
there, as DVC does with everything that was built before. So both machines end with the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from castaway.config.errors import CastawayError, first_line
from castaway.processes.environment import run_git
from castaway.processes.groups import pause
from castaway.processes.host_file import Host
from castaway.processes.servers import VARIABLE, configured
from castaway.tasks.registry import read_params
from castaway.tools.plugins import link
from castaway.tracking import dvc_stage
from flows.build import dvc, run_step
from flows.logs import last_lines, new_log
from flows.plan import must_run, plan
from flows.steps import POOL, Outcome, Step

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

# Prefect is imported later: a build in which nothing has to run does without it.

FLOW = "stage"  # the name of the flow in `flows.pipeline` that workers run; a deployment of it has the name of its pool
SENT = ("params.yaml", "dvc.lock")
"""The files whose content is sent to a worker; everything else has to be in the commit."""
TRIES = 3
LOST_SECONDS = 90
"""How long a worker shows no heartbeat until it counts as lost: three of those that prefect.yaml asks for."""
START_SECONDS = 600
"""How long a worker may take from a stage to its first heartbeat: on a busy host, to import Prefect takes minutes."""
TAG = "castaway"  # the tag in prefect.yaml of the deployments whose workers are watched
UNCLAIMED_SECONDS = 60.0  # how long a stage may wait for a worker before the user is asked whether there is one
POLL = 2.0  # time between two questions for the state of a stage, in seconds
TRANSFER_SECONDS = 3600.0  # how long DVC may take to push or pull


def carry_out(root: Path, target: str, commit: str, files: Mapping[str, str], *, force: bool, log: Path) -> Outcome:
    """Build a stage in the clone of a worker; CastawayError if it failed.

    The clone is brought to `commit`, with other content of params.yaml and dvc.lock (`files`); then inputs are pulled,
    and what is built is pushed. Without a commit, the clone and its data are taken as they are.
    """
    if commit:
        check_out(root, commit, files)
    link(root, read_params(root / "params.yaml"))
    step = next((step for step in plan(root, [target]) if step.address == target), None)
    if step is None:
        raise CastawayError(f"{target} stands for several stages; name one of them")
    if commit and step.reads:
        transfer(root, "pull", *step.reads)
    outcome = run_step(root, step, {}, force=force, log=log)
    if not outcome.built:
        raise CastawayError(f"{outcome.message}: {' | '.join(last_lines(log, 3))}")
    if commit:
        push_outputs(root, target)
    return outcome


def sent(steps: Sequence[Step], host: Host) -> list[Step]:
    """The steps, those that host.yaml sends to a pool with the pool as their device."""
    pools = {step.address: host.pool(step.address) for step in steps}
    if any(pools.values()) and not configured():
        raise CastawayError(f"host.yaml sends stages to pools, which needs a Prefect server; set {VARIABLE}")
    return [replace(step, device=f"{POOL}{pool}") if (pool := pools[step.address]) else step for step in steps]


def build_remotely(root: Path, step: Step, *, force: bool, log: Path) -> Outcome:
    """Have a worker of the step's pool build it, and restore what it pushed. What DVC can restore is sent nowhere."""
    if not (force or must_run(root, step.address)):
        return run_step(root, step, {}, log=log)
    began, pool = time.monotonic(), step.device.removeprefix(POOL)
    order = order_of(root, step.address, force=force)
    if step.reads:
        transfer(root, "push", *step.reads)
    for _ in range(TRIES):
        if _built(step, pool, order):
            break
        print(f"{step.address}  its worker was lost", flush=True)
    else:
        raise CastawayError(f"{step.address} was sent to the pool {pool} {TRIES} times, and each worker was lost")
    restored = run_step(root, step, {}, log=log, pull=True)
    if restored.state == "Cached":
        message = f"built by a worker of the pool {pool}"
        return replace(restored, state="Ran", seconds=time.monotonic() - began, message=message)
    return restored


def order_of(root: Path, target: str, *, force: bool) -> dict[str, Any]:
    """The parameters of the flow `stage` with which a worker builds what would be built here."""
    if dirty := git(root, "status", "--porcelain", "--", ".", *_but("data", *SENT)).splitlines():
        raise CastawayError(f"{target} cannot be sent to a worker: {dirty[0][3:]} is not committed; commit and push it")
    files = {name: (root / name).read_text("utf-8") for name in SENT if (root / name).exists()}
    return {"target": target, "force": force, "commit": git(root, "rev-parse", "HEAD").strip(), "files": files}


def _built(step: Step, pool: str, order: dict[str, Any]) -> bool:
    """Whether a worker built the stage; False if it was lost."""
    from prefect.client.orchestration import get_client
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Cancelling

    # A busy server may answer 503 after it took the stage: with a key, Prefect's second request begins no second run.
    key = str(uuid4())
    try:
        watch_workers()
        run: Any = run_deployment(
            f"{FLOW}/{pool}", parameters=order, flow_run_name=step.address, timeout=0, idempotency_key=key
        )
    except ObjectNotFound:
        remedy = "`prefect deploy --all` on the host of the server makes those in prefect.yaml"
        raise CastawayError(f"{step.address} is sent to {pool}, which has no deployment; {remedy}") from None
    except Exception as error:  # of Prefect or of httpx
        raise CastawayError(f"{step.address} cannot be sent to the pool {pool}: {first_line(error)}") from None
    print(f"{step.address}  sent to the pool {pool}", flush=True)
    try:
        state = _final_state(step, run.id)
    except BaseException:
        with suppress(Exception), get_client(sync_client=True) as client:
            client.set_flow_run_state(run.id, Cancelling())
        raise
    if state.is_completed() or state.is_crashed():
        return state.is_completed()
    raise CastawayError(f"{step.address} failed on a worker: {state.message or state.name}")


def _final_state(step: Step, run: UUID) -> State[Any]:
    """The state in which a flow run ends. While the server is away, the worker goes on."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    waited, told = 0.0, False
    while True:
        pause(POLL)
        try:
            with get_client(sync_client=True) as client:
                state = client.read_flow_run(run).state
        except ObjectNotFound:
            raise CastawayError(f"{step.address}: its run was deleted on the Prefect server") from None
        except Exception as error:
            if not told:
                print(f"{step.address}  waits for the Prefect server: {first_line(error)}", flush=True)
            told = True
            continue
        if state and state.is_final():
            return state
        if state and state.is_scheduled() and waited < UNCLAIMED_SECONDS <= waited + POLL:
            print(f"{step.address}  no worker has taken it yet; is one running for its pool?", flush=True)
        waited += POLL


def watch_workers() -> None:
    """Have Prefect's server end the run of a worker that is lost as Crashed; its two automations are made once."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    beat = "prefect.flow-run.heartbeat"
    ends = ("Ran", "Cached", "Completed", "Failed", "Cancelled", "Crashed", "TimedOut")
    crash = ChangeFlowRunState(name="Crashed", state=StateType.CRASHED, message="its worker was lost", force=False)
    with get_client(sync_client=True) as client:
        for event, seconds in (("prefect.flow-run.Pending", START_SECONDS), (beat, LOST_SECONDS)):
            name = f"{TAG}: lost if no heartbeat comes within {seconds} s of {event}"
            if client.read_automations_by_name(name):
                continue
            trigger = EventTrigger(
                match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
                match_related=ResourceSpecification({"prefect.resource.id": f"prefect.tag.{TAG}"}),
                after={event},
                expect={beat, *(f"prefect.flow-run.{end}" for end in ends)},
                for_each={"prefect.resource.id"},
                posture=Posture.Proactive,
                within=timedelta(seconds=seconds),
            )
            client.create_automation(AutomationCore(name=name, trigger=trigger, actions=[crash]))


def check_out(root: Path, commit: str, files: Mapping[str, str]) -> None:
    """Bring a clone to a commit, with other content for some `files`."""
    if own := git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_but("data", *SENT)).splitlines():
        raise CastawayError(f"{root} has changes of its own ({own[0][3:]}); a worker needs a clone for itself")
    if not _has(root, commit):
        git(root, "fetch", "--quiet", "--all")
    if not _has(root, commit):
        raise CastawayError(
            f"commit {commit[:10]} is not in {root}, nor where it fetches from; push it there, and build again"
        )
    git(root, "checkout", "--quiet", "--force", "--detach", commit)
    for name, text in files.items():
        if name in SENT:
            (root / name).write_text(text, "utf-8")


def push_outputs(root: Path, target: str) -> None:
    """Push a stage's entry of the run-cache, and all outputs: `dvc push --run-cache` omits metrics and plots."""
    from dvc.exceptions import DvcException

    built = dvc_stage.load(root, target).stage
    cache = built.repo.stage_cache
    try:
        cache.push(None)
        entry = cache._create_stage(cache._load(built))
        failed = [one for objs in entry.get_used_objs().values() for one in built.repo.cloud.push(objs).failed]
    except DvcException as error:
        raise CastawayError(f"{target} was built, and could not be pushed: {first_line(error)}") from None
    if failed:
        raise CastawayError(f"{target} was built, and DVC's remote did not take {len(failed)} of its files")


def transfer(root: Path, *arguments: str) -> None:
    log = new_log(root, f"dvc {arguments[0]}")
    if dvc(root, arguments, {}, log).wait(TRANSFER_SECONDS):
        raise CastawayError(f"`dvc {' '.join(arguments)}` failed in {root}: {' | '.join(last_lines(log, 2))}")


def git(root: Path, *arguments: str) -> str:
    done = run_git(root, *arguments)
    if done.returncode:
        raise CastawayError(f"`git {arguments[0]}` failed in {root}: {' '.join(done.stderr.split())[-200:]}")
    return done.stdout


def _has(root: Path, commit: str) -> bool:
    return run_git(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def _but(*names: str) -> list[str]:
    return [f":(exclude){name}" for name in names]
