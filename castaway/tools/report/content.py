"""What the report of a run says, from the files that its stages wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.datasets.episodes import read_episode
from castaway.errors import CastawayError
from castaway.metrics.results import PLAYERS, figure, from_file, share
from castaway.tools.dotted import flatten
from castaway.tools.report.charts import bars, curves
from castaway.tools.transcript import episode_text

DRAWN = {
    "success_rate": "Success of training episodes",
    "mean_return": "Mean return",
    "invalid_rate": "Invalid replies",
    "reference_kl": "KL from the SFT policy, nats per token",
    "entropy": "Entropy, nats per token",
    "stage": "Curriculum stage",
}
"""Curves of PPO, in the order of the page, with their headings."""
LOSSES = {"sft": "Loss of SFT", "reward_model": "Loss of the reward model", "correction_sft": "Loss of correction-SFT"}
SUCCESS = "success_rate"
KINDS = 12
"""Kinds of corrections that are listed, the most frequent first."""
EPISODES = 12
"""Saved episodes that are shown."""
LONGEST = 60_000
"""Characters of an episode that are shown, so that the page stays small."""


@dataclass(frozen=True)
class Chart:
    """A heading with a picture below it."""

    heading: str
    svg: str


@dataclass(frozen=True)
class Shown:
    """A saved episode."""

    title: str
    success: bool
    text: str


@dataclass(frozen=True)
class Report:
    """All parts of the page."""

    run: str
    players: Sequence[Sequence[str]]
    """Name, success, invalid replies, mean return, episodes."""
    success: str
    """The bars of success."""
    learning: Sequence[Chart]
    losses: Sequence[Chart]
    corrections: Sequence[tuple[int, str]]
    """Number and critique."""
    further: int
    """Corrections of the other kinds."""
    agreement: Mapping[str, Any]
    """Who judged how many replies, and what a served teacher and the rules disputed; dotted names to numbers."""
    episodes: Sequence[Shown]
    """The failures first, those of the final policy before the others."""


def report_of(root: Path, run: str) -> Report:
    """Collect what has been built of a run.

    Raises:
        CastawayError: it was not evaluated, or a file is not what a stage writes.
    """
    folder = root / "data" / run
    path = folder / "metrics" / "evaluate.json"
    if not path.is_file():
        raise CastawayError(f"{path} is missing; `dvc repro evaluate@{run}` builds it")
    players, success = from_file(path, _players)
    levels = from_file(path, lambda found: {name: figure(figure(found, name), SUCCESS) for name in ("sft", "final")})
    corrections, further = _corrections(folder / "ppo" / "corrections.jsonl")
    return Report(
        run=run,
        players=players,
        success=success,
        learning=_learning(folder / "plots" / "ppo.json", levels),
        losses=_losses(folder / "plots"),
        corrections=corrections,
        further=further,
        agreement=_numbers(folder / "ppo" / "agreement.json"),
        episodes=_episodes(folder / "evaluate"),
    )


def _players(evaluate: Mapping[str, Any]) -> tuple[list[list[str]], str]:
    """The rows of the table, and the bars; players with a success rate alone, those of the pipeline first."""
    rated = {name: one for name, one in evaluate.items() if isinstance(one, Mapping) and "success_rate_low" in one}
    order = [*(name for name in PLAYERS if name in rated), *(name for name in rated if name not in PLAYERS)]
    rows, shares = [], {}
    for name in order:
        one = rated[name]
        shares[name] = (one["success_rate"], one["success_rate_low"], one["success_rate_high"])
        rows.append(
            [
                name,
                share(one, "success_rate"),
                share(one, "invalid_rate") if "invalid_rate" in one else "-",
                f"{one['mean_return']:.3g}" if "mean_return" in one else "-",
                str(one.get("episodes", "-")),
            ]
        )
    return rows, bars("Success on held-out episodes, with 95 % intervals", shares)


def _learning(path: Path, levels: Mapping[str, float]) -> list[Chart]:
    """The curves of PPO; held-out success of SFT and of the final policy beside that of training."""
    rows = _rows(path)
    passes = [float(row["step"]) for row in rows if "sft_loss" in row]
    found = []
    for name, heading in DRAWN.items():
        points = _points(rows, name)
        if points:
            lines = levels if name == SUCCESS else {}
            held_out = {f"{policy}, held out": level for policy, level in lines.items()}
            found.append(Chart(heading, curves(heading, {name: points}, held_out, passes)))
    return found


def _losses(folder: Path) -> list[Chart]:
    found = []
    for stage, heading in LOSSES.items():
        points = _points(_rows(folder / f"{stage}.json"), "loss")
        if len(points) > 1:  # a single point is no curve
            found.append(Chart(heading, curves(heading, {"loss": points}, {}, ())))
    return found


def _corrections(path: Path) -> tuple[list[tuple[int, str]], int]:
    """The most frequent critiques with their numbers, and the number of all others."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError:  # what PPO made is not in this clone: `dvc pull` was not run
        return [], 0
    counts = Counter(str(json.loads(line).get("critique", "")) for line in lines if line)
    shown = counts.most_common(KINDS)
    return [(count, critique) for critique, count in shown], counts.total() - sum(count for _, count in shown)


def _episodes(folder: Path) -> list[Shown]:
    paths = sorted(folder.glob("*/*.jsonl"), key=lambda path: (path.parent.name != "final", path))
    found = []
    for path in paths:
        rows = read_episode(path)
        header, policy = rows[0], path.parent.name
        result = "success" if header.get("success") else "failure"
        title = f"{policy}, episode {header['task_id']}: {result}, {header.get('ending', '')}"
        text = episode_text(rows)
        cut = f"{text[:LONGEST]}\n[the rest is in {path.name}]" if len(text) > LONGEST else text
        found.append(Shown(title, bool(header.get("success")), cut))
    # Of each policy a failure comes first; the sort keeps the order otherwise.
    found.sort(key=lambda one: (not one.title.startswith("final,"), one.success))
    return found[:EPISODES]


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in rows if name in row]


def _rows(path: Path) -> list[dict[str, Any]]:
    return from_file(path, lambda rows: list(rows)) if path.is_file() else []


def _numbers(path: Path) -> dict[str, Any]:
    found = from_file(path, flatten) if path.is_file() else {}
    return {name.replace("_", " ").replace(".", ": "): value for name, value in found.items()}
