"""GPU slots: one global concurrency limit of the Prefect server per GPU, so that no two stages share a GPU.

    python -m flows setup          once per server, on the host with the GPUs

To Prefect, a limit that does not exist means no limit. So the limits are created here, and the driver requires that
they exist (`strict`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from castaway.errors import CastawayError
from castaway.tools import hardware
from flows import environment
from flows.server import require_server

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "mi300x": "HIP_VISIBLE_DEVICES"}
"""The variable that selects a stage's GPU, by kind. For AMD only HIP's is set: ROCr's would apply on top of it."""


def main() -> int:
    """Create the slots of this host's GPUs on the Prefect server in PREFECT_API_URL.

    Raises:
        CastawayError: the variable is not set, or no server answers there.
    """
    environment.silence(environment.find_root())
    if not os.environ.get("PREFECT_API_URL"):
        raise CastawayError("PREFECT_API_URL is not set; set it to the Prefect server that holds the GPU slots")
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
    from prefect import get_client

    with get_client(sync_client=True) as client:
        for name in names:
            client.upsert_global_concurrency_limit_by_name(name, 1)


@contextmanager
def occupy(kind: str, index: int, devices: int) -> Iterator[dict[str, str]]:
    """Occupy the slot of a GPU while the context lasts, waiting for it if another stage has it.

    Args:
        kind: of the device; a stage on the CPU needs no slot.
        index: of the GPU.
        devices: how many GPUs there are.

    Yields:
        Environment variables that make only that GPU visible to the stage.

    Raises:
        CastawayError: the Prefect server has no such slot.
    """
    from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
    from prefect.concurrency.sync import concurrency

    if kind == "cpu":
        yield {}
        return
    name = slot_name(kind, index)
    try:
        with concurrency([name], occupy=1, strict=True):
            yield visible_variables(kind, index) if devices > 1 else {}
    except ConcurrencySlotAcquisitionError:
        raise CastawayError(f"the Prefect server has no slot {name}; create it with `python -m flows setup`") from None


def visible_variables(kind: str, index: int) -> dict[str, str]:
    """The variable that makes only GPU `index` visible, counted among the GPUs that are visible now."""
    variable = VISIBLE[kind]
    now = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return {variable: now[index] if index < len(now) else str(index)}
