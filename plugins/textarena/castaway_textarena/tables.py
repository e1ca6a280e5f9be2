"""The tables of this package's README, each written by a command between two marks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.metrics.built import built
from castaway.tasks.registry import read_params
from castaway_textarena.catalogue import REFUSED, family, games, is_open, players_of
from castaway_textarena.trial import Trial, tried

POLICIES = ("random", "base", "sft", "ppo", "final", "search")
"""The rows of a run, the floor first and the ceiling last."""


def one_of_each() -> list[str]:
    """One game of each family: the plain one if there is one, else the first."""
    found: dict[str, str] = {}
    for name in games():
        plain = f"{family(name)}-v0"
        found[family(name)] = plain if plain in games() else found.get(family(name), name)
    return sorted(found.values())


def games_table(texts: int, processes: int) -> str:
    """Every game with what the checker found, as Markdown.

    Args:
        texts: how many random texts are said in each game.
        processes: how many games are tried at one time.
    """
    names = one_of_each()
    with ProcessPoolExecutor(processes) as pool:
        trials = [*pool.map(tried, names, [texts] * len(names))]
    unstable = _differing([trial.game for trial in trials if not trial.fault])
    rows = [_row(trial, trial.game in unstable) for trial in trials]
    passed = sum(not trial.fault and trial.game not in unstable for trial in trials)
    head = "| game | players | moves | search | check |\n| --- | --- | --- | --- | --- |"
    return f"{passed} of {len(trials)} games pass.\n\n{head}\n" + "\n".join(rows)


def _row(trial: Trial, unstable: bool) -> str:
    fault = trial.fault or ("its play depends on the hash seed of the process" if unstable else "")
    if family(trial.game) in REFUSED or (fault and not trial.listed and not trial.notes):
        moves = search = ""
    else:
        moves = "listed" if trial.listed else "free text"
        search = "yes" if is_open(trial.game) and trial.listed else "no"
    said = fault.replace("|", "/").rstrip(".") or "passes"
    return f"| {trial.game} | {players_of(trial.game)} | {moves} | {search} | {said} |"


def _differing(names: list[str]) -> set[str]:
    """The games whose episodes are not the same in processes with different hash seeds."""
    program = (
        "import json, sys; from castaway_textarena.trial import digest; "
        "print(json.dumps([digest(name) for name in sys.argv[1:]]))"
    )
    found = []
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program, *names], env=environment, capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {name for name, *digests in zip(names, *found, strict=True) if len(set(digests)) > 1}


def results_table(root: Path) -> str:
    """The figures of all runs of this task that were built, as Markdown.

    Args:
        root: the repository.

    Raises:
        CastawayError: none was built.
    """
    params = read_params(root / "params.yaml")
    rows = []
    for run, block in params.tasks.items():
        figures = built(root, run, "evaluate").figures
        if block.task == "textarena" and figures:
            rows += _result_rows(str(block.game.model_dump()["game"]), figures)
    if not rows:
        raise CastawayError("no run of the task textarena was evaluated; run dvc repro evaluate@RUN first")
    head = "| game | player | success (95 %) | mean reward (95 %) | invalid replies | episodes |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *rows])


def _result_rows(game: str, metrics: Mapping[str, dict[str, Any]]) -> list[str]:
    rows = []
    for policy in POLICIES:
        if figures := metrics.get(policy):
            low, rate, high = (100 * figures[f"success_rate{part}"] for part in ("_low", "", "_high"))
            paid = [figures[f"mean_return{part}"] for part in ("", "_low", "_high")]
            invalid = f"{100 * figures['invalid_rate']:.1f} %" if "invalid_rate" in figures else ""
            rows.append(
                f"| {game} | {policy} | {rate:.1f} % ({low:.1f} to {high:.1f}) "
                f"| {paid[0]:.2f} ({paid[1]:.2f} to {paid[2]:.2f}) | {invalid} | {figures['episodes']} |"
            )
    return rows


def write_between(path: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->` in a file.

    Raises:
        CastawayError: the marks are missing.
    """
    before, first, rest = path.read_text("utf-8").partition(f"<!-- {name} -->\n")
    _, last, after = rest.partition(f"<!-- /{name} -->")
    if not (first and last):
        raise CastawayError(
            f"{path} has no marks <!-- {name} --> and <!-- /{name} -->; put them where the table belongs"
        )
    path.write_text(f"{before}{first}{text}\n{last}{after}", "utf-8")
