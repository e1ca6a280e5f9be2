"""What torch sees, asked in a process of its own: with a broken driver it may hang.

python -m castaway.tools.doctor.probe    prints it as JSON
"""

from __future__ import annotations

import gc
import json
from dataclasses import asdict, dataclass
from typing import Any

from castaway.tools.doctor.driver import driver
from castaway.tools.hardware import Device, visible_devices


@dataclass(frozen=True)
class Probed:
    """What the process prints."""

    torch: str
    """The version of torch, which names its build."""
    driver: str
    devices: list[Device]

    @classmethod
    def read(cls, text: str) -> Probed:
        """From what the process prints."""
        found: dict[str, Any] = json.loads(text)
        return cls(found["torch"], found["driver"], [Device(**one) for one in found["devices"]])


def probe() -> Probed:
    """Ask torch and the driver."""
    import torch

    return Probed(torch.__version__, driver(), visible_devices())


if __name__ == "__main__":
    gc.disable()  # the process is short, and collecting garbage takes a third of the time of its imports
    print(json.dumps(asdict(probe())))
