"""GPU slots: global concurrency limits of the Prefect server, one for each GPU, so that two stages never share one.

    python -m flows setup          once for each server, on the host with the GPUs

Limits live on the server, and Prefect takes a limit that does not exist for no limit at all. So they are created here,
and the driver insists (`strict`) that the one it needs exists.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from castaway.errors import CastawayError
from flows import environment, hardware
from flows.server import require_server

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "mi300x": "HIP_VISIBLE_DEVICES"}
"""What tells a stage which GPU is its own. Only one variable is set: HIP's and ROCr's indices would compose."""


def main() -> int:
    """Create the slots of this host's GPUs on the server that PREFECT_API_URL names."""
    environment.silence(environment.find_root())
    if not os.environ.get("PREFECT_API_URL"):
        raise CastawayError("PREFECT_API_URL is not set; name the Prefect server that shall hold the GPU slots")
    devices = hardware.visible_devices()
    names = [slot_name(device.kind, index) for index, device in enumerate(devices) if device.kind in VISIBLE]
    create(names)
    print(f"created {', '.join(names)}" if names else "this host has no GPU that stages are pinned to: no slots needed")
    return 0


def slot_name(kind: str, index: int) -> str:
    """The name of the limit of one GPU."""
    return f"castaway-{kind}-{index}"


def create(names: Sequence[str]) -> None:
    """Make each limit exist with one place; a limit that exists is left as it is."""
    require_server()
    from prefect import get_client

    with get_client(sync_client=True) as client:
        for name in names:
            client.upsert_global_concurrency_limit_by_name(name, 1)


@contextmanager
def occupy(kind: str, index: int, devices: int) -> Iterator[dict[str, str]]:
    """Hold the slot of GPU `index` of `devices`; yields the variables that show a stage only that GPU."""
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
    """The variable that leaves only GPU `index` visible, counted among those that are visible now."""
    variable = VISIBLE[kind]
    now = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return {variable: now[index] if index < len(now) else str(index)}
