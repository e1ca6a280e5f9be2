"""What the report of a run says, from the files that its stages wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.metrics.cells import figure, from_file, share
from castaway.metrics.policies import POLICIES
from castaway.metrics.results import PLAYERS
from castaway.tasks.registry import read_params
from castaway.tools.report.charts import bars, curves
from castaway.tools.report.episodes import Shown, shown_episodes
from castaway.tools.report.judged import Corrected, Disputed, corrections_of, disputes_of

DRAWN = {
    "success_rate": "Success",
    "invalid_rate": "Invalid replies",
    "mean_return": "Mean return",
    "reference_kl": "KL from the SFT policy, nats per token",
    "entropy": "Entropy, nats per token",
    "stage": "Curriculum stage",
}
"""Curves of PPO, in the order of the page, with their headings."""
ALONE = {"success_rate": "validation_success_rate"}
"""Curves of validation, in which the teacher does not help, that are drawn over those of training."""
BESIDE = ("success_rate", "invalid_rate")
"""The curves beside which the held-out rates of all policies are drawn."""
LOSSES = {"base": "base", "sft": "SFT", "correction_sft": "correction-SFT"}
"""Stages with the same loss, per token of a reply or a text, which are drawn in one chart."""


@dataclass(frozen=True)
class Chart:
    """A heading with a picture below it."""

    heading: str
    svg: str


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
    corrections: Sequence[Corrected]
    further: int
    """Corrections of the other kinds."""
    judged_by: Mapping[str, int]
    """Who judged how many replies in PPO."""
    disputes: Sequence[Disputed]
    episodes: Sequence[Shown]


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
    corrections, further = corrections_of(folder / "ppo" / "corrections.jsonl")
    judged_by, disputes = disputes_of(folder / "ppo" / "agreement.json")
    return Report(
        run=run,
        players=players,
        success=success,
        learning=_learning(folder / "plots" / "ppo.json", from_file(path, _held_out)),
        losses=_losses(root, run),
        corrections=corrections,
        further=further,
        judged_by=judged_by,
        disputes=disputes,
        episodes=shown_episodes(folder / "evaluate"),
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


def _held_out(evaluate: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Rate to policy to its value on held-out episodes."""
    found = {name: figure(evaluate, name) for name in POLICIES if name in evaluate}
    return {rate: {name: float(figure(one, rate)) for name, one in found.items()} for rate in BESIDE}


def _learning(path: Path, held_out: Mapping[str, Mapping[str, float]]) -> list[Chart]:
    """The curves of PPO, and beside the rates those of all policies on held-out episodes."""
    rows = _rows(path)
    passes = [float(row["step"]) for row in rows if row.get("sft_loss") is not None]
    found = []
    for name, heading in DRAWN.items():
        points = _points(rows, name)
        if points:
            alone = _points(rows, ALONE[name]) if name in ALONE else []
            series = {"training": points, **({"validation, without help": alone} if len(alone) > 1 else {})}
            found.append(Chart(heading, curves(heading, series, held_out.get(name, {}), passes)))
    return found


def _losses(root: Path, run: str) -> list[Chart]:
    """The losses of supervised training over each other, by the share of their steps, and that of the reward model."""
    folder = root / "data" / run / "plots"
    series = {}
    for stage, name in LOSSES.items():
        points = _points(_rows(folder / f"{stage}.json" if stage != "base" else _base_curve(root, run)), "loss")
        if len(points) > 1:  # a single point is no curve
            series[name] = [(100 * step / points[-1][0], loss) for step, loss in points]
    reward = _points(_rows(folder / "reward_model.json"), "loss")
    found = {}
    if series:
        found["Loss of supervised training, by % of its steps"] = series
    if len(reward) > 1:
        found["Loss of the reward model"] = {"loss": reward}
    return [Chart(heading, curves(heading, one, {}, ())) for heading, one in found.items()]


def _base_curve(root: Path, run: str) -> Path:
    """The curves of the base model that the run starts from."""
    params = read_params(root / "params.yaml")
    base = params.tasks[run].base if run in params.tasks else run
    return root / "data" / base / "plots" / "base.json"


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in rows if row.get(name) is not None]


def _rows(path: Path) -> list[dict[str, Any]]:
    return from_file(path, lambda rows: list(rows)) if path.is_file() else []
