"""GPU slots: one global concurrency limit of the Prefect server per GPU, so that no two stages share a GPU.

Inside one driver no two stages share a GPU in any case; the slots are for drivers of several clones. A slot is made
when it is first asked for. It is held by a lease, which ends some minutes after a driver that was killed. A stage that
runs is never stopped for a lease.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from castaway.tools.prefect_address import address
from flows.prefect_server import connect, warn
from flows.process import pause

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "mi300x": "HIP_VISIBLE_DEVICES"}
"""The variable that selects a stage's GPU, by kind. For AMD only HIP's is set: ROCr's would apply on top of it."""
BELOW = "ROCR_VISIBLE_DEVICES"
"""If the user has set it, HIP counts only the GPUs that it names."""
LEASE = 300.0
"""How long a slot is held if its lease is not renewed, in seconds."""
LOST_SECONDS = 60.0
"""The same for the worker of an order, after which the order is given to another."""
RENEWAL = 60.0
"""Time between two renewals of a lease, in seconds."""
POLL = 2.0
"""Time between two questions for a slot, in seconds."""
HICCUP = 10.0
"""How long a server that does not answer is asked for a free slot, or to take one back, in seconds."""
LOCKED, GONE = 423, 410
"""The HTTP status of a slot that another stage holds, and of a lease that has run out or was forgotten."""

_environment = threading.RLock()
"""Held while the variables of this process name fewer GPUs than it may use."""


def slot_name(kind: str, index: int) -> str:
    """The name of a GPU's concurrency limit: this host's, since other hosts of the server have GPUs of their own.

    Args:
        kind: of the device.
        index: of the GPU, among those that are visible now.
    """
    gpu = visible_variables(kind, [index])[VISIBLE[kind]]
    below = _listed(BELOW) if kind == "mi300x" else []
    if gpu.isdecimal() and int(gpu) < len(below):
        gpu = below[int(gpu)]
    return f"castaway-{socket.gethostname()}-{kind}-{gpu}"


@contextmanager
def occupy(kind: str, indices: Sequence[int], stage: str) -> Iterator[None]:
    """Occupy the slots of some GPUs while the context lasts, waiting for those that other stages have.

    Without a server, or if it does not answer, the stage runs without a slot.

    Args:
        kind: of the device; a stage on the CPU needs no slot.
        indices: of the GPUs.
        stage: its address, for messages.

    Raises:
        InterruptedError: the driver is being stopped.
    """
    if kind not in VISIBLE or not address():
        yield
        return
    with ExitStack() as stack:
        # Everybody takes them in the same order, so that no two stages wait for each other.
        for name in sorted(slot_name(kind, index) for index in indices):
            stack.enter_context(holding(name, stage))
        yield


@contextmanager
def holding(name: str, stage: str, seconds: float = LEASE) -> Iterator[None]:
    """Hold a slot while the context lasts, by a lease of so many seconds that is renewed; see `occupy`."""
    lease = acquire(name, stage, seconds)
    if lease is None:
        yield
        return
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(name, lease, over, seconds), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def holding_order(number: str) -> AbstractContextManager[None]:
    """Show that the worker of an order is there, while the context lasts."""
    return holding(f"castaway-order-{number}", f"order {number}", LOST_SECONDS)


def order_slot(client: Any, number: str) -> bool:
    """Whether the worker of an order shows that it is there."""
    from prefect.exceptions import ObjectNotFound

    try:
        return bool(client.read_global_concurrency_limit_by_name(f"castaway-order-{number}").active_slots)
    except ObjectNotFound:
        return False


def acquire(name: str, stage: str, seconds: float = LEASE) -> str | None:
    """The id of the lease of a slot; None if the server does not answer."""
    began, told = time.monotonic(), False
    while True:
        try:
            with connect() as client:
                found = client.increment_concurrency_slots_with_lease([name], 1, "concurrency", seconds).json()
                if found["limits"]:
                    return str(found["lease_id"])
                # To Prefect, a limit that does not exist means no limit.
                client.upsert_global_concurrency_limit_by_name(name, 1)
            continue
        except Exception as error:  # of Prefect, of httpx, or ours
            if _status(error) == LOCKED:
                # From now on another stage is known to have it: for as long as its lease can last.
                began = time.monotonic() + seconds - HICCUP
                if not told:
                    print(f"{stage}  waits for the slot {name} of the Prefect server", flush=True)
                told = True
            elif time.monotonic() - began > HICCUP:
                warn(error)
                return None
        pause(POLL)


def _keep(name: str, lease: str, over: threading.Event, seconds: float) -> None:
    """Renew the lease until the stage is over, then give the slot back; a server that is away changes nothing."""
    told, confirmed, forgotten = False, time.monotonic(), False
    while not over.wait(min(RENEWAL, seconds / 5)):
        try:
            with connect() as client:
                if _renewed(client, lease, seconds):
                    confirmed = time.monotonic()
                else:
                    # Unless the lease has run out, the server was restarted: it forgets leases but not taken slots.
                    forgotten = forgotten or time.monotonic() - confirmed < seconds
        except Exception as error:
            if not told:
                warn(error)
            told = True
    _give_back(name, lease, seconds, forgotten or time.monotonic() - confirmed < seconds, told)


def _give_back(name: str, lease: str, seconds: float, held: bool, told: bool) -> None:
    """Give a slot back, asking a server that does not answer again for a while: it may be busy, or just starting.

    Args:
        name: of the slot.
        lease: its id.
        seconds: how long the lease lasts.
        held: whether the slot is held by this stage though the server does not know the lease.
        told: whether the user was told that the server does not answer.
    """
    began, asked = time.monotonic(), False
    while True:
        try:
            with connect() as client:
                if _renewed(client, lease, seconds):
                    asked = True
                    client.release_concurrency_slots_with_lease(lease)
                elif held and not asked:
                    # A lease that went because of the request before has freed its slot.
                    client.release_concurrency_slots([name], 1, seconds)
            return
        except Exception as error:
            if not told:
                warn(error)
            told = True
        if time.monotonic() - began > HICCUP:
            return
        time.sleep(min(1.0, HICCUP))


def _renewed(client: Any, lease: str, seconds: float) -> bool:
    """Renew the lease, and return whether the server knows it."""
    try:
        client.renew_concurrency_lease(lease, seconds)
    except Exception as error:
        if _status(error) == GONE:
            return False
        raise
    return True


def _status(error: Exception) -> int | None:
    """The HTTP status that the server answered, if it did."""
    return getattr(getattr(error, "response", None), "status_code", None)


def visible_variables(kind: str, indices: Sequence[int]) -> dict[str, str]:
    """The variable that makes only the GPUs at `indices` visible, counted among the GPUs that are visible now."""
    now = _listed(VISIBLE[kind])
    return {VISIBLE[kind]: ",".join(now[index] if index < len(now) else str(index) for index in indices)}


@contextmanager
def seeing(visible: Mapping[str, str]) -> Iterator[None]:
    """Context in which a process that is started sees these GPUs alone; other threads count them as before."""
    with _environment:
        before = {name: os.environ.get(name) for name in visible}
        os.environ.update(visible)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def _listed(variable: str) -> list[str]:
    """The GPUs that an environment variable names."""
    with _environment:
        return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
