"""What stages that train share: the warm-up, and large blocks that go back to the kernel, gaps between others too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from castaway.models.rows import SMALL
from castaway.models.training import trainer_settings
from castaway.processes.environment import FROM_THE_START

GAPS = """
from castaway.models.training import LARGE_BLOCK, return_large_blocks

def resident():
    status = open("/proc/self/status").read()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024

return_large_blocks({hidden_size})
blocks = [bytearray(b"1" * LARGE_BLOCK) for _ in range(100)]
kept = blocks[::10]  # so that gaps are left; some 15 blocks still fit into the heap as it was
before = resident()
del blocks
print(before, resident(), sum(map(len, kept)) // LARGE_BLOCK)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("hidden_size", "least", "most"), [(SMALL, 290, 370), (SMALL - 1, 0, 10)])
def test_large_blocks_are_returned_for_a_large_model(hidden_size: int, least: int, most: int) -> None:
    command = [sys.executable, "-c", GAPS.format(hidden_size=hidden_size)]
    ran = subprocess.run(command, env={**os.environ, **FROM_THE_START}, capture_output=True, text=True, check=True)
    before, after, kept = map(int, ran.stdout.split())
    assert kept == 10
    assert least <= before - after <= most


@pytest.mark.parametrize(("examples", "warm_up"), [(1, 0), (16, 0), (144, 0), (160, 1), (1_520, 9), (100_000, 10)])
def test_a_stage_of_few_steps_is_not_spent_on_the_warm_up(tmp_path: Path, examples: int, warm_up: int) -> None:
    """At most a tenth of the steps; the first step of a warm-up has a rate of 0."""
    settings = trainer_settings(
        tmp_path, seed=1, device="cpu", epochs=1, batch_size=16, learning_rate=1.0, examples=examples
    )
    assert settings["warmup_steps"] == warm_up
