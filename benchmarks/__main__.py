"""Measures the speed of environments, rollouts and PPO on this machine, in comparison with other libraries.

    python -m benchmarks            measure, print, and write benchmarks/results.md (`make bench`)
    python -m benchmarks --quick    a smoke test: very short measurements, printed only
    python -m benchmarks --model FOLDER    with this model instead of SmolLM2

Speeds depend on the machine. What a ratio compares is measured alternately in the same run. Each table is printed once
it is measured, and results.md then has it. On two cores all of it takes less than fifteen minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import torch
import transformers

from benchmarks.environments import environment_table
from benchmarks.logging_cost import logging_table
from benchmarks.ppo_step import step_table
from benchmarks.real_model import real_model_table
from benchmarks.rollouts import rollout_table
from benchmarks.shapes import Shape, random_model
from benchmarks.step_share import share_table
from benchmarks.timing import WINS
from castaway.bases.tiny import train_tokenizer
from castaway.config.params import Params
from castaway.processes.environment import revision, start_afresh
from castaway.tasks.registry import read_params
from castaway.tools.memory import KNOWN

HERE = Path(__file__).parent
PROFILE = "smollm2"
BUILT = HERE.parent / "scratch" / PROFILE / "data" / PROFILE / "base"
"""Where `make repro PROFILE=smollm2` builds the real model."""
Section = tuple[str, Callable[[], str]]
"""A heading, and what measures the tables below it."""


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks", description="Measure environments, rollouts and PPO.")
    top.add_argument("--quick", action="store_true", help="a smoke test that writes no file")
    top.add_argument("--model", type=Path, default=BUILT, help="folder of the real model to measure")
    asked = top.parse_args()
    start_afresh()  # as the stages do: otherwise large tensors cost most where they are largest
    params = read_params(HERE.parent / "params.yaml").for_run("marooned")
    torch.set_num_threads(params.threads)
    measure(sections(params, asked.model, asked.quick), None if asked.quick else HERE / "results.md")


def sections(params: Params, model: Path, quick: bool) -> list[Section]:
    rounds = 1 if quick else 3
    sizes = [
        {"hidden": 128, "layers": 3, "prompt": 96, "reply": 16},
        {"hidden": 256, "layers": 4, "prompt": 32, "reply": 32},
    ]
    shapes = [Shape(turns=32, group=4, threads=params.threads, **one) for one in sizes[: 1 if quick else 2]]
    return [
        ("The games", lambda: environment_table(seconds=0.2 if quick else 2.0)),
        ("Rollouts", lambda: rollout_table(params, episodes=2 if quick else 32, rounds=rounds)),
        ("A step beside TRL's", lambda: "\n\n".join(step_table(params, shape, rounds) for shape in shapes)),
        ("Where the seconds of a step go", lambda: share_table(params, 16 if quick else 512, rounds)),
        ("What logging costs", lambda: logging_table(1, 16, 1) if quick else logging_table(8, 512, rounds)),
        ("A real model", lambda: real_model(model, quick)),
    ]


def measure(sections: Sequence[Section], results: Path | None) -> None:
    """Print each section as it is measured, and then who wins; `results` has at any time what there is so far."""
    began, parts, wins = monotonic(), [f"# Benchmarks\n\nWritten by `make bench`.\n\n{machine()}"], list[str]()
    print(parts[0], flush=True)
    for number, (heading, tables) in enumerate(sections, start=1):
        passed = f"{(monotonic() - began) / 60:.1f} minutes"
        print(f"{number} of {len(sections)}, after {passed}: {heading} ...", file=sys.stderr, flush=True)
        text = tables()
        wins += [f"- {heading}: {line.removeprefix(WINS)}" for line in text.splitlines() if line.startswith(WINS)]
        parts.append(f"## {heading}\n\n{text}")
        print(f"\n{parts[-1]}", flush=True)
        if results:  # in git: a smoke test must not overwrite it
            results.write_text("\n\n".join([parts[0], who_wins(wins), *parts[1:]]) + "\n", encoding="utf-8")
    print(f"\n{who_wins(wins)}\n\nMeasured in {(monotonic() - began) / 60:.1f} minutes.")


def who_wins(wins: Sequence[str]) -> str:
    return "\n".join(["## Who wins", "", "Each line compares two ways that took turns in this run.", "", *wins])


def real_model(folder: Path, quick: bool) -> str:
    """The tables of a real model; where it was not built, of random weights of its sizes, which are as fast."""
    threads = read_params(HERE.parent / "profiles" / f"{PROFILE}.yaml").threads
    count, name = (2 if quick else 16), "SmolLM2-135M-Instruct" if folder == BUILT else folder.name
    with tempfile.TemporaryDirectory(prefix="castaway-bench-") as scratch:
        if not (folder / "config.json").is_file():
            folder, name = Path(scratch), "Random weights of SmolLM2-135M's sizes, which are as fast"
            sizes = KNOWN["smollm2-135m"]
            random_model(replace(sizes, layers=2) if quick else sizes).save_pretrained(folder)
            train_tokenizer(["nothing"], 300).save_pretrained(folder)
        types = ["float32"] if quick else ["float32", "bfloat16"]
        tables = [real_model_table(folder, threads, count, 1, dtype) for dtype in types]
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
