"""The flow that workers on other machines run: it builds the stage of an order in the clone of the worker.

The clone is the current directory; `prefect.yaml` sets it from CASTAWAY_CLONE, which the worker was started with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, runtime

from flows import environment
from flows.elsewhere import FLOW
from flows.order import Order, carry_out
from flows.slots import holding_order
from flows.turn import turn


@flow(name=FLOW, log_prints=True)
def stage(order: dict[str, Any]) -> None:
    """Build the stage, and push what came of it.

    Raises:
        CastawayError: it could not be built.
    """
    root = environment.find_root()
    environment.silence(root)
    with holding_order(str(runtime.flow_run.id)), turn(root):
        outcome = carry_out(root, Order(**order))
    print(f"{order['address']} {outcome.state} in {outcome.seconds:.0f} s; log in {Path('scratch/logs')}")
