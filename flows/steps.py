"""A stage of a plan, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECEIPT = "CASTAWAY_RECEIPT"
"""Environment variable with the path of the receipt, the file that tells the driver that the stage ran to its end."""

POOL = "pool "  # what the device of a step begins with that is sent to a work pool; the name of the pool follows


@dataclass(frozen=True)
class Step:
    address: str
    upstream: tuple[str, ...]
    device: str
    timeout_seconds: float
    outs: tuple[str, ...]
    reads: tuple[str, ...] = ()  # paths of the data that it depends on
    locked: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What dvc.lock said of its dependencies before, see `castaway.tracking.dvc_stage`."""
    processes: int = 1  # places on the CPU, or GPUs: one for each process that trains it, or that vLLM wants
    retries: int = 0


@dataclass(frozen=True)
class Outcome:
    step: Step
    state: str  # `Ran`, `Cached` (restored or unchanged), `Failed`, or `Skipped` (a stage that it needs failed)
    seconds: float = 0.0
    message: str = ""  # of a step that failed or was skipped: why. Of one that ran: what had changed
    record: dict[str, Any] = field(default_factory=dict)
    """The record of the run that made the stage's output, now or earlier."""

    @property
    def built(self) -> bool:
        return self.state in ("Ran", "Cached")

    def row(self) -> dict[str, str]:
        return {
            "stage": self.step.address,
            "state": self.state,
            "seconds": f"{self.seconds:.1f}",
            "why": self.message,
            "run": str(self.record.get("run_id") or "-"),
            "made": str(self.record.get("began") or "-"),
        }
