"""Who may use which GPU of this host.

Inside one driver no two stages share a GPU in any case. For drivers of several clones, each GPU is a global concurrency
limit of the Prefect server that they report to. A stage that runs is never stopped because a server is away.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from castaway.processes.groups import stopping
from castaway.processes.hardware import BELOW, VISIBLE, listed, visible_variables
from flows.prefect_server import warn

ASK_SECONDS = 5.0  # how long one question for a slot waits; between two of them the driver notices that it is to stop


def slot_name(kind: str, index: int) -> str:
    """The name of a visible GPU's concurrency limit: this host's, as other hosts of the server have their own GPUs."""
    gpu = visible_variables(kind, [index]).get(VISIBLE.get(kind, ""), str(index))
    below = listed(BELOW) if kind == "mi300x" else []
    if gpu.isdecimal() and int(gpu) < len(below):
        gpu = below[int(gpu)]
    return f"castaway-{socket.gethostname()}-{kind}-{gpu}"


@contextmanager
def occupy(kind: str, indices: Sequence[int], stage: str) -> Iterator[None]:
    """Occupy the slots of some GPUs, waiting for those in use; if the server does not answer, go on without."""
    slots = ExitStack()
    try:
        _acquire(slots, sorted(slot_name(kind, index) for index in indices), stage)
    except InterruptedError:
        raise
    except Exception as error:  # of Prefect or of httpx
        warn(error)
    try:
        yield
    finally:
        try:
            slots.close()
        except Exception as error:
            warn(error)


def _acquire(slots: ExitStack, names: list[str], stage: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.concurrency.sync import concurrency

    with get_client(sync_client=True) as client:
        for name in names:
            # To Prefect, a limit that does not exist means no limit.
            client.upsert_global_concurrency_limit_by_name(name, 1)
    told = False
    while not stopping():
        held: Any = concurrency(names, timeout_seconds=ASK_SECONDS, raise_on_lease_renewal_failure=False)
        try:
            slots.enter_context(held)
            return
        except TimeoutError:
            if not told:
                print(f"{stage}  waits for {', '.join(names)} on the Prefect server", flush=True)
            told = True
    raise InterruptedError("stopped while it waited")
