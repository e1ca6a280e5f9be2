"""The report of a run as one HTML file, without scripts and without requests to any host; and the README's picture."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.config.sections import POLICIES
from castaway.datasets.jsonl import CORRECTIONS, read_rows, reply_text
from castaway.metrics import ledger
from castaway.metrics.built import Figures, built, evaluated, from_file, from_stage
from castaway.metrics.markdown import interval, share
from castaway.metrics.results import PLAYERS, verdict
from castaway.rollout.episodes import Row, read_episode
from castaway.rollout.outcomes import outcomes_path, read_outcomes
from castaway.tasks.registry import read_params, task_class
from castaway.teacher.agreement import UNUSABLE
from castaway.tools.charts import Levels, counted_bars, curves, panels
from castaway.tools.transcript import clean
from castaway.tools.view import Replay, TaskView, render, replay_of, view_of

DRAWN = {
    "success_rate": "Success",
    "invalid_rate": "Invalid replies",
    "mean_return": "Mean return",
    "reference_kl": "KL from the SFT policy, nats per token",
    "entropy": "Entropy, nats per token",
    "stage": "Curriculum stage",
}
"""Curves of PPO, in the order of the page, with their headings."""
RATES = ("success_rate", "invalid_rate")  # the curves over which the held-out rates of all policies are drawn
LOSSES = {"base": "base", "sft": "SFT", "correction_sft": "correction-SFT"}
"""Stages with the same loss, per token of a reply or a text, which are drawn in one chart."""
FINAL = POLICIES[-1]
BEFORE = "sft"  # the policy that the final one is compared with, episode by episode
CHANGES = {
    (True, False): "lost",
    (False, False): "failed by both",
    (True, True): "won by both",
    (False, True): "gained",
}
"""What became of an episode, by the success of the policy before and of the final one."""
AVERAGED = 5  # the moving average of success is over this part of the steps, as the figures of the stage are
SHOWN = {FINAL: 3}  # worst and best episodes that are shown of a policy; of every other policy one
KINDS = 12  # kinds of corrections that are shown, the most frequent first
LONGEST = 3_000  # characters of an example's text that are shown
PARTICULAR = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|\S*\d\S*""")
"""What differs between two critiques of one kind: what they quote, and what has a number in it, as squares have."""


def report_of(root: Path, run: str) -> dict[str, Any]:
    """What the page shows; CastawayError if the run was not evaluated, or a file is not what a stage writes."""
    folder = root / "data" / run
    corrections, further = _corrections(folder / "ppo" / "corrections.jsonl")
    agreement = folder / "ppo" / "agreement.json"
    judged_by, disputes = from_file(agreement, _disputes) if agreement.is_file() else ({}, {})
    answers = sum(count for judge, count in judged_by.items() if judge != "rules")
    block = read_params(root / "params.yaml").tasks.get(run)
    words = ""
    with suppress(CastawayError):  # of a task that has other figures
        words = from_stage(root, run, "evaluate", verdict)
    return {
        "run": run,
        "verdict": words,
        "origin": _origin(root, run),
        "players": from_stage(root, run, "evaluate", _players),
        # Heading to chart.
        "learning": _learning(folder / "plots" / "ppo.json", from_stage(root, run, "evaluate", _held_out)),
        "changes": _changes(outcomes_path(root, run), task_class(block.task).evaluation_seats if block else ()),
        "losses": _losses(root, run, block.base if block else run),
        "corrections": corrections,
        "further": further,
        # Who judged how many replies in PPO, and the kinds of disputes of a served teacher with the rules.
        "judged_by": judged_by,
        "unusable_share": judged_by.get(UNUSABLE, 0) / answers if answers else None,
        "disputes": disputes,
        "episodes": shown_episodes(folder / "evaluate", view_of(block.task, block.game) if block else TaskView(run)),
    }


def report_page(root: Path, run: str) -> str:
    """The page of a run; text of models and teachers is escaped."""
    return render("report.html.jinja", report=report_of(root, run), cut=_cut)


# Figures and curves --------------------------------------------------------------------------------------------------


def _origin(root: Path, run: str) -> str:
    record = built(root, run, "evaluate").record
    if not record:
        return ""
    key, rows = str(record.get("stage_key", "")), ledger.read(root / "data" / run / "metrics" / ledger.FILE)
    made = [f"commit {str(record.get('revision', ''))[:7]}", str(record.get("began", ""))[:16].replace("T", " ")]
    made += [f"seed {row['seed']}" for row in rows if row["stage_key"] == key][:1]
    return f"{', '.join(made)}. {ledger.sentence(rows, key)}"


def _players(evaluate: Figures) -> list[list[str]]:
    rated = {name: one for name, one in evaluate.items() if isinstance(one, Mapping) and "success_rate_low" in one}
    if not rated:
        raise CastawayError("no player has a success_rate")
    rated = {name: rated[name] for name in dict.fromkeys([*PLAYERS, *rated]) if name in rated}
    return [
        [
            name,
            share(one, "success_rate"),
            share(one, "invalid_rate") if "invalid_rate" in one else "-",
            f"{one['mean_return']:.3g}" if "mean_return" in one else "-",
            str(one.get("episodes", "-")),
        ]
        for name, one in rated.items()
    ]


def _held_out(evaluate: Figures) -> dict[str, Levels]:
    """The rates of each policy alone on held-out episodes, by the name of the rate."""
    own = {name: evaluate[name] for name in POLICIES if name in evaluate}
    return {rate: {name: interval(one, rate) for name, one in own.items()} for rate in RATES}


def _learning(path: Path, held_out: Mapping[str, Levels]) -> dict[str, Markup]:
    rows = _rows(path)
    passes = [float(row["step"]) for row in rows if row.get("sft_loss") is not None]
    charts = {}
    for name, heading in DRAWN.items():
        series = _training(rows, name)
        if name == "success_rate" and series:
            size = max(1, len(rows) // AVERAGED)
            series[f"training, mean of {size} steps"] = moving_average(series["training"], size)
        if series and not (name == "stage" and len({stage for _, stage in series["training"]}) < 2):
            charts[heading] = Markup(curves(heading, series, held_out.get(name, {}), passes))
    return charts


def _training(rows: Sequence[Row], name: str) -> dict[str, list[tuple[float, float]]]:
    """A curve of PPO; over that of success the one of validation, in which the teacher does not help."""
    training, validation = _points(rows, name), _points(rows, f"validation_{name}")
    series = {"training": training, "validation, without help": validation if len(validation) > 1 else []}
    return {label: points for label, points in series.items() if points and training}


def moving_average(points: Sequence[tuple[float, float]], size: int) -> list[tuple[float, float]]:
    """At each step the mean of the last `size` values; at the beginning of those that there are."""
    ends = range(1, len(points) + 1)
    return [(points[end - 1][0], fmean(value for _, value in points[max(0, end - size) : end])) for end in ends]


def _changes(path: Path, seats: Sequence[str]) -> Markup:
    """How many held-out episodes the final policy lost and gained, by seat; empty without the outcomes of each."""
    text, counts = path.read_text("utf-8") if path.is_file() else "", dict[str, dict[str, int]]()
    for seat in seats if text else ():
        before, after = (read_outcomes(text, player, seat) for player in (BEFORE, FINAL))
        found = Counter((before[one], after[one]) for one in before.keys() & after.keys())
        counts[seat] = {name: found[change] for change, name in CHANGES.items()}
    return Markup(counted_bars(f"Held-out episodes, {BEFORE} and {FINAL}", counts) if counts else "")


def _losses(root: Path, run: str, base: str) -> dict[str, Markup]:
    series = {}
    for stage, name in LOSSES.items():
        points = _points(_rows(root / "data" / (base if stage == "base" else run) / "plots" / f"{stage}.json"), "loss")
        if len(points) > 1:
            series[name] = [(100 * step / points[-1][0], loss) for step, loss in points]
    reward = _points(_rows(root / "data" / run / "plots" / "reward_model.json"), "loss")
    charts = {
        "Loss of supervised training, by % of its steps": series,
        "Loss of the reward model": {"loss": reward} if len(reward) > 1 else {},
    }
    return {heading: Markup(curves(heading, one, {}, ())) for heading, one in charts.items() if one}


def _points(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in rows if row.get(name) is not None]


def _rows(path: Path) -> list[Row]:
    return from_file(path, list) if path.is_file() else []


def learning_picture(root: Path, params: Params) -> str:
    """Success by PPO step of every run that was evaluated, as SVG."""
    shares = {}
    for run in evaluated(root, params.tasks):
        held_out = from_stage(root, run, "evaluate", _held_out)["success_rate"]
        series = _training(_rows(root / "data" / run / "plots" / "ppo.json"), "success_rate")
        shares[run] = (series, {f"{name}, held out": one for name, one in held_out.items()})
    return panels(f"Success by PPO step: {', '.join(shares)}", shares)


# Episodes, corrections and disputes ----------------------------------------------------------------------------------


def shown_episodes(folder: Path, view: TaskView) -> dict[str, Replay]:
    """The worst and the best episodes of `data/RUN/evaluate`, those of the final policy first."""
    shown = {}
    for policy in sorted({path.parent.name for path in folder.glob("*/*.jsonl")}, key=lambda one: (one != FINAL, one)):
        episodes = sorted((read_episode(path) for path in sorted((folder / policy).glob("*.jsonl"))), key=_rank)
        count = SHOWN.get(policy, 1)
        # The worst first: a failure is what one wants to see.
        for word, chosen in (("worst", episodes[:count]), ("best", episodes[count:][-count:][::-1])):
            for rows in chosen:
                head, result = rows[0], "success" if rows[0].get("success") else "failure"
                title = f"{policy}, episode {head['task_id']}, one of its {word}: {result}, {head.get('ending', '')}"
                shown[title] = replay_of(rows, view.state)
    return shown


def _rank(rows: Sequence[Row]) -> tuple[bool, int, int]:
    """Worse episodes are less: failures, then those with more invalid replies, then the longer ones."""
    head, *moments = rows
    invalid = sum(not said.get("valid") for moment in moments for said in moment["said"].values())
    return bool(head.get("success")), -invalid, -len(moments)


def _corrections(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The most frequent kinds with the first of each, and the number of corrections of the other kinds."""
    rows, kinds = read_rows(path, CORRECTIONS) if path.is_file() else [], dict[str, list[Row]]()
    for row in rows:
        kinds.setdefault(PARTICULAR.sub("\N{HORIZONTAL ELLIPSIS}", row["critique"]), []).append(row)
    shown: list[dict[str, Any]] = [
        {
            "kind": kind,
            "count": len(same),
            "penalty": fmean(row["penalty"] for row in same),
            "wrong": _cut(reply_text(same[0]["rejected"])),
            "target": _cut(reply_text(same[0]["chosen"])),
        }
        for kind, same in sorted(kinds.items(), key=lambda item: -len(item[1]))[:KINDS]
    ]
    return shown, len(rows) - sum(one["count"] for one in shown)


def _disputes(agreement: Figures) -> tuple[dict[str, int], dict[str, Figures]]:
    kinds = agreement["disputes"].items()
    return agreement["judged_by"], dict(sorted(kinds, key=lambda item: -int(item[1]["count"])))


def _cut(text: str) -> str:
    shown = clean(text)
    return f"{shown[:LONGEST]} ..." if len(shown) > LONGEST else shown
