"""Measures the speed of environments, rollouts and PPO on this machine, in comparison with other libraries.

    python -m benchmarks            measure, print, and write benchmarks/results.md (`make bench`)
    python -m benchmarks --quick    a smoke test: very short measurements, printed only
    python -m benchmarks --model FOLDER    with this model instead of SmolLM2

Speeds depend on the machine. What a ratio compares is measured alternately in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

import torch
import transformers

from benchmarks.environments import environment_table
from benchmarks.logging_cost import logging_table
from benchmarks.ppo_step import PEER, step_table
from benchmarks.real_model import real_model_table
from benchmarks.rollouts import rollout_table
from benchmarks.shapes import Shape
from benchmarks.step_share import share_table
from castaway.processes.environment import revision, start_afresh
from castaway.tasks.registry import read_params

HERE = Path(__file__).parent
PROFILE = "smollm2"
BUILT = HERE.parent / "scratch" / PROFILE / "data" / PROFILE / "base"
"""Where `make repro PROFILE=smollm2` builds the real model."""


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks", description="Measure environments, rollouts and PPO.")
    top.add_argument("--quick", action="store_true", help="a smoke test that writes no file")
    top.add_argument("--model", type=Path, default=BUILT, help="folder of the real model to measure")
    asked = top.parse_args()
    start_afresh()  # as the stages do: otherwise large tensors cost most where they are largest
    quick = asked.quick
    params = read_params(HERE.parent / "params.yaml").for_run("marooned")
    torch.set_num_threads(params.threads)
    rounds = 1 if quick else 5
    shapes = [
        Shape(hidden=128, layers=3, turns=32, prompt=96, reply=16, epochs=params.ppo.epochs, threads=params.threads),
        Shape(hidden=128, layers=3, turns=32, prompt=32, reply=32, epochs=4, threads=params.threads),
        Shape(hidden=256, layers=4, turns=32, prompt=32, reply=32, epochs=4, threads=params.threads),
    ]
    parts = [
        f"# Benchmarks\n\nWritten by `make bench`.\n\n{machine()}",
        f"## The games\n\n{environment_table(seconds=0.2 if quick else 5.0)}",
        f"## Rollouts\n\n{rollout_table(params, episodes=2 if quick else 64, rounds=rounds)}",
    ]
    if PEER.is_dir():
        tables = [step_table(params, shape, rounds) for shape in (shapes[:1] if quick else shapes)]
        parts.append("## A PPO step beside TRL's\n\n" + "\n\n".join(tables))
    # The comparison of PPO steps sets its own number of threads.
    torch.set_num_threads(params.threads)
    parts += [
        f"## Where the seconds of a step go\n\n{share_table(params, 16 if quick else 512, rounds)}",
        # As long as the shortest of the shipped stages of PPO.
        f"## What logging costs\n\n{logging_table(1, 16, 1) if quick else logging_table(12, 512, rounds)}",
        f"## A real model\n\n{real_model(asked.model, quick)}",
    ]
    text = "\n\n".join(parts) + "\n"
    print(text, end="")
    # results.md is in git: a smoke test must not overwrite it.
    if not quick:
        (HERE / "results.md").write_text(text, encoding="utf-8")


def real_model(folder: Path, quick: bool) -> str:
    """The tables of a real model, or a sentence that says how to get one."""
    if not (folder / "config.json").is_file():
        command = f"make repro PROFILE={PROFILE} TARGETS=base@{PROFILE}"
        place = os.path.relpath(folder, HERE.parent)
        return f"Not measured: `{place}` is no model; `{command}` builds SmolLM2, and `--model` names another folder."
    threads = read_params(HERE.parent / "profiles" / f"{PROFILE}.yaml").threads
    name = "SmolLM2-135M-Instruct" if folder == BUILT else folder.name
    count, rounds = (2, 1) if quick else (32, 3)
    tables = [real_model_table(folder, threads, count, rounds, dtype) for dtype in ("float32", "bfloat16")]
    return f"{name}. " + "\n\n".join(tables)


def machine() -> str:
    """The machine and the versions of the libraries, as a Markdown list."""
    facts = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": revision(HERE.parent)[:7],
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


if __name__ == "__main__":
    main()
