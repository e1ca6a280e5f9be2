"""Freed memory goes back to the kernel at once where PPO or an evaluation would grow without need.

A stage tells malloc to keep what is freed, since requesting it again is slow (`flows/environment.py`). Batches of many
shapes then leave gaps that nothing fits into, and a large model's PPO grows from step to step (docs/experiments.md).
"""

from __future__ import annotations

import ctypes

from castaway.models.rows import SMALL

LARGE_BLOCK = 2**22
"""Blocks from this size on, in bytes, are returned as soon as they are freed; a mebibyte costs a third more time."""
MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of mallopt(3)."""


def return_large_blocks(hidden_size: int) -> None:
    """From now on, malloc requests each large block from the kernel and returns it when it is freed.

    Does nothing for a small model, whose blocks are not worth it, nor without glibc.
    """
    if hidden_size < SMALL:
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(MMAP_THRESHOLD, LARGE_BLOCK)
