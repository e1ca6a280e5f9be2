"""GPU slots: one global concurrency limit of the Prefect server per GPU, so that no two stages share a GPU.

    python -m flows setup          once per server, on the host with the GPUs

Inside one driver no two stages share a GPU in any case; the slots are for drivers of several clones. A slot is held by
a lease, which ends some minutes after a driver that was killed. A stage that runs is never stopped for a lease.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from castaway.errors import CastawayError
from castaway.tools import hardware
from castaway.tools.prefect_address import VARIABLE, address
from flows import environment
from flows.prefect_server import connect, require_server, warn
from flows.process import pause

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "mi300x": "HIP_VISIBLE_DEVICES"}
"""The variable that selects a stage's GPU, by kind. For AMD only HIP's is set: ROCr's would apply on top of it."""
LEASE = 300.0
"""How long a slot is held if its lease is not renewed, in seconds."""
RENEWAL = 60.0
"""Time between two renewals of a lease, in seconds."""
POLL = 2.0
"""Time between two questions for a slot, in seconds."""
HICCUP = 10.0
"""How long a server that does not answer is asked for a free slot, in seconds."""
LOCKED, GONE = 423, 410
"""The HTTP status of a slot that another stage holds, and of a lease that has run out or was forgotten."""


def main() -> int:
    """Create the slots of this host's GPUs on the user's Prefect server.

    Raises:
        CastawayError: there is none, or it does not answer.
    """
    environment.silence(environment.find_root())
    if not address():
        raise CastawayError(f"{VARIABLE} is not set; set it to the Prefect server that holds the GPU slots")
    devices = hardware.visible_devices()
    names = [slot_name(device.kind, index) for index, device in enumerate(devices) if device.kind in VISIBLE]
    create(names)
    print(f"created {', '.join(names)}" if names else "this host has no GPU that stages are pinned to: no slots needed")
    return 0


def slot_name(kind: str, index: int) -> str:
    """The name of a GPU's concurrency limit."""
    return f"castaway-{kind}-{index}"


def create(names: Sequence[str]) -> None:
    """Create each limit with one place; an existing limit is set to one place too."""
    require_server()
    with connect() as client:
        for name in names:
            client.upsert_global_concurrency_limit_by_name(name, 1)


@contextmanager
def occupy(kind: str, index: int, stage: str) -> Iterator[None]:
    """Occupy the slot of a GPU while the context lasts, waiting for it if another stage has it.

    Without a server, or if it does not answer, the stage runs without a slot.

    Args:
        kind: of the device; a stage on the CPU needs no slot.
        index: of the GPU.
        stage: its address, for messages.

    Raises:
        CastawayError: the Prefect server has no such slot.
        InterruptedError: the driver is being stopped.
    """
    name = slot_name(kind, index)
    lease = acquire(name, stage) if kind != "cpu" and address() else None
    if lease is None:
        yield
        return
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(name, lease, over), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def acquire(name: str, stage: str) -> str | None:
    """The id of the lease of a slot; None if the server does not answer."""
    began, told = time.monotonic(), False
    while True:
        try:
            with connect() as client:
                response = client.increment_concurrency_slots_with_lease([name], 1, "concurrency", LEASE)
            break
        except Exception as error:  # of Prefect, of httpx, or ours
            if _status(error) == LOCKED:
                # From now on another stage is known to have it: for as long as its lease can last.
                began = time.monotonic() + LEASE - HICCUP
                if not told:
                    print(f"{stage}  waits for the slot {name} of the Prefect server", flush=True)
                told = True
            elif time.monotonic() - began > HICCUP:
                warn(error)
                return None
        pause(POLL)
    found = response.json()
    if not found["limits"]:
        # To Prefect, a limit that does not exist means no limit.
        raise CastawayError(f"the Prefect server has no slot {name}; create it with `python -m flows setup`")
    return str(found["lease_id"])


def _keep(name: str, lease: str, over: threading.Event) -> None:
    """Renew the lease until the stage is over, then give the slot back; a server that is away changes nothing."""
    told, forgotten, confirmed = False, False, time.monotonic()
    while True:
        ended = over.wait(RENEWAL)
        try:
            with connect() as client:
                known = _renewed(client, lease)
                if known and not ended:
                    confirmed = time.monotonic()
                elif known:
                    client.release_concurrency_slots_with_lease(lease)
                else:
                    # Unless the lease has run out, the server was restarted: it forgets leases but not taken slots.
                    forgotten = forgotten or time.monotonic() - confirmed < LEASE
                    if ended and forgotten:
                        client.release_concurrency_slots([name], 1, LEASE)
        except Exception as error:
            if not told:
                warn(error)
            told = True
        if ended:
            return


def _renewed(client: Any, lease: str) -> bool:
    """Renew the lease, and return whether the server knows it."""
    try:
        client.renew_concurrency_lease(lease, LEASE)
    except Exception as error:
        if _status(error) == GONE:
            return False
        raise
    return True


def _status(error: Exception) -> int | None:
    """The HTTP status that the server answered, if it did."""
    return getattr(getattr(error, "response", None), "status_code", None)


def visible_variables(kind: str, index: int) -> dict[str, str]:
    """The variable that makes only GPU `index` visible, counted among the GPUs that are visible now."""
    variable = VISIBLE[kind]
    now = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return {variable: now[index] if index < len(now) else str(index)}
