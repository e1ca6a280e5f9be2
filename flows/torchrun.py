"""Has torchrun start the processes that train a stage together, where `host.yaml` asks for several.

The stage's own process becomes torchrun's agent. It starts the command of the stage again, once for each process, and
starts all of them anew if one has died: they resume from the newest checkpoint. Rank 0 does all that a stage does; the
others only train.
"""

from __future__ import annotations

import os
import sys
import tempfile

from castaway.errors import CastawayError
from castaway.tools import hardware
from castaway.tools.host_file import Torchrun
from flows.process import GRACE

STARTED = "TORCHELASTIC_RUN_ID"
"""Environment variable that torchrun sets for the processes that it starts."""


def is_member() -> bool:
    """Whether torchrun started this process."""
    return STARTED in os.environ


def rank() -> int:
    """The number of this process among those that train together, from 0."""
    return int(os.environ.get("RANK", "0")) if is_member() else 0


def count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) if is_member() else 1


def start(address: str, device: str, settings: Torchrun) -> None:
    """Train the stage with the processes that `settings` ask for; returns when all of them have finished.

    Raises:
        CastawayError: there are fewer GPUs than processes, or a process failed more often than it is started again.
    """
    wanted, found = settings.nproc_per_node, len(hardware.visible_devices()) if device != "cpu" else 0
    if device != "cpu" and found < wanted:
        raise CastawayError(
            f"{address} wants {wanted} GPUs (torchrun in host.yaml) and finds {found}; "
            f"set nproc_per_node to {found or 1}, or make more of them visible"
        )
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    # Processes that are started again would read what the first ones left in the agent's store, and hang
    # (pytorch issue 135712); this gives each attempt a store of its own.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    try:
        with tempfile.TemporaryDirectory(prefix="castaway-torchrun-") as logs:
            torchrun([*arguments(settings), "--log-dir", logs, "-m", "flows", address])
    except SignalException as stopped:
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        raise CastawayError(
            f"{address}: process {number} of {wanted * settings.nnodes} failed with exit status {failure.exitcode}; "
            f"its lines above say why"
        ) from None


def arguments(settings: Torchrun) -> list[str]:
    """The command line of torchrun, without the program."""
    if settings.nnodes == 1 and settings.master_port is None:
        meeting = ["--standalone", "--local-addr", settings.master_addr]
    else:
        meeting = ["--nnodes", str(settings.nnodes), "--node-rank", str(settings.node_rank)]
        meeting += ["--master-addr", settings.master_addr, "--master-port", str(settings.master_port)]
    times = ["--max-restarts", str(settings.max_restarts), "--shutdown-timeout", str(int(GRACE))]
    return [*meeting, "--nproc-per-node", str(settings.nproc_per_node), *times]
