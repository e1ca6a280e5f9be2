"""Sends stages to a work pool of Prefect, whose workers run on other machines, and takes back what they build.

`pools` in host.yaml says which stages; prefect.yaml holds the deployments, one for each pool. A stage that DVC can
restore is sent nowhere. A worker that is lost, together with its host, loses its lease; the stage is then sent again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from castaway.errors import CastawayError
from castaway.tools.host_file import Host
from castaway.tools.prefect_address import VARIABLE, address
from flows.order import order_for, push_inputs
from flows.prefect_server import connect, warn
from flows.process import pause
from flows.ready import must_run
from flows.report import POOL, Outcome, Step
from flows.reproduce import run_step
from flows.slots import order_slot

FLOW = "stage"
"""The name of the flow in `flows/worker.py`; a deployment of it has the name of its pool."""
TRIES = 3
"""How often a stage is sent, if its workers are lost."""
SILENT_SECONDS = 15.0
"""How long a worker whose lease is over may still show up, before it counts as lost."""
UNCLAIMED_SECONDS = 60.0
"""How long a stage may wait for a worker before the user is asked whether there is one."""
BUSY_TRIES = 4
"""How often a stage is offered again to a server that is busy: after 2, 4, 8 and 16 seconds."""
POLL = 2.0
"""Time between two questions for the state of a stage, in seconds."""


def sent(steps: Sequence[Step], host: Host) -> list[Step]:
    """The steps, those that host.yaml sends to a pool with the pool as their device.

    Raises:
        CastawayError: there are such steps, and no Prefect server.
    """
    pools = {step.address: host.pool(step.address) for step in steps}
    if any(pools.values()) and not address():
        raise CastawayError(f"host.yaml sends stages to pools, which needs a Prefect server; set {VARIABLE}")
    return [replace(step, device=f"{POOL}{pool}") if (pool := pools[step.address]) else step for step in steps]


def build_elsewhere(root: Path, step: Step, log: Path, *, force: bool) -> Outcome:
    """Have a worker of the step's pool build it, and restore what it pushed.

    Args:
        root: the root of the repository.
        step: what to build.
        log: the file of what DVC prints here.
        force: build it even if nothing changed.

    Raises:
        CastawayError: there is no deployment for the pool, or the worker failed.
        InterruptedError: the driver is being stopped; the worker is too.
    """
    if not (force or must_run(root, step.address)):
        return run_step(root, step, {}, log=log)
    began, pool = time.monotonic(), step.device.removeprefix(POOL)
    push_inputs(root, step)
    order = asdict(order_for(root, step.address, force=force))
    for _ in range(TRIES):
        if _carried_out(step, pool, order):
            break
    else:
        raise CastawayError(f"{step.address} was sent to the pool {pool} {TRIES} times, and each worker was lost")
    restored = run_step(root, step, {}, log=log, pull=True)
    if restored.state == "Cached":
        message = f"built by a worker of the pool {pool}"
        return replace(restored, state="Ran", seconds=time.monotonic() - began, message=message)
    return restored


def _carried_out(step: Step, pool: str, order: dict[str, Any]) -> bool:
    """Whether a worker built the stage; False if it was lost.

    Raises:
        CastawayError: it failed.
    """
    number = _begin(step, pool, order)
    try:
        return _end(step, number)
    except BaseException:
        _cancel(number)
        raise


def _begin(step: Step, pool: str, order: dict[str, Any]) -> UUID:
    """Put the stage into the queue of the pool; the id of its flow run."""
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    # A busy server answers 503, perhaps after it took the stage: with a key, the second request begins no second run.
    key = str(uuid4())
    with connect() as client, temporary_settings({PREFECT_CLIENT_MAX_RETRIES: BUSY_TRIES}):
        try:
            deployment = client.read_deployment_by_name(f"{FLOW}/{pool}")
        except ObjectNotFound:
            remedy = "`prefect deploy --all` on the host of the server makes those in prefect.yaml"
            raise CastawayError(f"{step.address} is sent to {pool}, which has no deployment; {remedy}") from None
        run = client.create_flow_run_from_deployment(
            deployment.id, parameters={"order": order}, name=step.address, idempotency_key=key
        )
    print(f"{step.address}  sent to the pool {pool}", flush=True)
    return run.id


def _end(step: Step, number: UUID) -> bool:
    """Wait for the end of a flow run; False if its worker was lost.

    Raises:
        CastawayError: the stage failed there.
    """
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Crashed

    silent, waited, told = 0.0, 0.0, False
    while True:
        pause(POLL)
        try:
            with connect() as client:
                state: Any = client.read_flow_run(number).state
                if state.is_scheduled() and waited < UNCLAIMED_SECONDS <= waited + POLL:
                    print(f"{step.address}  no worker has taken it yet; is one running for its pool?", flush=True)
                waited += POLL
                held = state.is_running() and order_slot(client, str(number))
                if state.is_final():
                    if state.is_completed():
                        return True
                    if state.is_crashed():
                        return False
                    raise CastawayError(f"{step.address} failed elsewhere: {state.message}")
                silent = 0.0 if held or not state.is_running() else silent + POLL
                if silent > SILENT_SECONDS:
                    client.set_flow_run_state(number, Crashed(message="its worker was lost"), force=True)
                    print(f"{step.address}  its worker was lost; sent again", flush=True)
                    return False
        except (CastawayError, InterruptedError):
            raise
        except ObjectNotFound:
            raise CastawayError(f"{step.address} failed elsewhere: its run was deleted on the Prefect server") from None
        except Exception as error:  # the server is away: the worker goes on
            if not told:
                warn(error)
            told = True


def _cancel(number: UUID) -> None:
    """Have the worker stop."""
    from prefect.states import Cancelling

    try:
        with connect() as client:
            client.set_flow_run_state(number, Cancelling())
    except Exception as error:
        warn(error)
