"""What `make bench` runs: how fast the environments and the sampler are on this machine.

    python -m benchmarks            measure, print, and write benchmarks/results.md
    python -m benchmarks --quick    a smoke test: a moment of each, printed only

Speeds depend on the machine; ratios are of things measured in the same run, in turns.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

import torch
import transformers

from benchmarks.environments import environment_table
from benchmarks.sampling import sampling_table
from castaway.params import load_params

HERE = Path(__file__).parent


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks", description="Measure the environments and the sampler.")
    top.add_argument("--quick", action="store_true", help="a smoke test that writes no file")
    quick = top.parse_args().quick
    params = load_params(HERE.parent / "params.yaml")
    torch.set_num_threads(params.threads)
    parts = [
        f"# Benchmarks\n\nWritten by `python -m benchmarks`.\n\n{machine()}",
        f"## MAROONED\n\n{environment_table(seconds=0.2 if quick else 5.0)}",
        f"## Sampling\n\n{sampling_table(params, prompts=8 if quick else 128, rounds=1 if quick else 3)}",
    ]
    text = "\n\n".join(parts) + "\n"
    print(text, end="")
    if not quick:
        (HERE / "results.md").write_text(text, encoding="utf-8")


def machine() -> str:
    facts = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


if __name__ == "__main__":
    main()
