"""Formats the metrics of evaluation as Markdown tables.

castaway results                             print the tables
castaway results --write docs/results.md     write them between the markers in a file
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from castaway.errors import CastawayError
from castaway.metrics import ledger
from castaway.metrics.cells import UNSEEN, Figures, figure, from_file, further_seats, policy_cells, share
from castaway.metrics.comparisons import ablation_table, corrections_table, hints_table, imitation_table, traitors_table
from castaway.metrics.markdown import percent, table
from castaway.metrics.policies import POLICIES

PLAYERS = (*POLICIES, "demonstrators", "expert")
"""The rows of the results: the policies, the demonstrators, from whom SFT learned, and the expert behind them.

Other players with a success rate, which the task adds for comparison, come last."""

COMPARISONS = {
    "imitation.json": imitation_table,
    "traitors.json": traitors_table,
    "ablation.json": ablation_table,
    "hints.json": hints_table,
    "corrections.json": corrections_table,
}
"""The files that benchmarks write beside those of the stages, each with its table."""


def run_report(folder: Path, seat: str = "") -> str:
    """All tables of one run.

    Args:
        folder: `data/RUN/metrics` with evaluate.json, and optionally reward_model.json, seeds/SEED.json,
            and those of `COMPARISONS`.
        seat: the name of the main seat, for the column headings.

    Raises:
        CastawayError: a file is missing, is not JSON or lacks a figure; the message names the file.
    """
    parts = [from_file(folder / "evaluate.json", lambda evaluate: results_table(evaluate, seat))]
    record = folder.parent / "runs" / "evaluate.json"
    key = from_file(record, lambda found: str(found.get("stage_key", ""))) if record.is_file() else ""
    parts.append(ledger.sentence(ledger.read(folder / ledger.FILE), key))
    parts += from_file(
        folder / "evaluate.json", lambda evaluate: [games_table(evaluate, seat)] if "games" in evaluate else []
    )
    parts += from_file(folder / "evaluate.json", shares_table)
    parts += from_file(folder / "evaluate.json", unseen_table)
    if (folder / "reward_model.json").is_file():
        parts.append(from_file(folder / "reward_model.json", reward_model_line))
    paths = sorted(folder.glob("seeds/*.json"), key=lambda path: (len(path.stem), path.stem))
    if paths:
        rows = [from_file(path, seed_row) for path in paths]
        parts.append(f"The same with other seeds:\n\n{table(seed_header(seat), rows)}")
        parts += unseen_seeds_table([from_file(path, lambda record: record) for path in paths])
    for name, written in COMPARISONS.items():
        if (folder / name).is_file():
            parts.append(from_file(folder / name, partial(written, seat=seat)))
    parts += times_table(folder.parent / "runs")
    return "\n\n".join(parts)


def times_table(records: Path) -> list[str]:
    """What each stage of a run took, in the order in which they ran; an empty list if there are no run records.

    Args:
        records: `data/RUN/runs`, with a run record for each stage.
    """
    found = [from_file(path, lambda record: record) for path in sorted(records.glob("*.json"))]
    rows = [
        [
            figure(record, "stage").partition("@")[0],
            f"{figure(record, 'seconds') / 60:.1f}",
            f"{record['peak_memory_gib']:.1f}" if "peak_memory_gib" in record else "-",
            figure(record, "device"),
            figure(record, "revision")[:7],
        ]
        for record in sorted(found, key=lambda record: str(figure(record, "began")))
    ]
    header = ["stage", "minutes", "peak memory, GiB", "device", "commit"]
    return [f"What each stage took:\n\n{table(header, rows)}"] if rows else []


def results_table(evaluate: Figures, seat: str = "") -> str:
    """One row for each policy and player that was evaluated."""
    known = [policy for policy in PLAYERS if policy in evaluate]
    if not known:
        raise CastawayError(f"none of the policies {', '.join(PLAYERS)} is in it")
    known += [name for name, found in evaluate.items() if name not in PLAYERS and "success_rate" in found]
    others = further_seats(evaluate[known[0]])
    wins = [f"{other} success (95 %)" for other in others]
    header = ["policy", "invalid replies", f"{seat} success (95 %)".strip(), *wins, "mean return", "episodes"]
    return table(header, [[policy, *policy_cells(evaluate[policy], others)] for policy in known])


def shares_table(evaluate: Figures) -> list[str]:
    """One row for each policy, with the task's own shares that have intervals; an empty list if there are none."""
    figures = figure(evaluate, "final")
    bounded = [name.removesuffix("_low") for name in figures if name.endswith("_low")]
    usual = ("success_rate", "invalid_rate", "mean_return", "gap_closed")
    own = [name for name in bounded if not name.endswith(usual)]
    if not own:
        return []
    rows = [[policy, *(share(evaluate[policy], name) for name in own)] for policy in PLAYERS if policy in evaluate]
    return [table(["policy", *(name.replace("_", " ") for name in own)], rows)]


def unseen_table(evaluate: Figures) -> list[str]:
    """One row for each player, in situations unlike those of training; an empty list if there were none."""
    names = [name for name, found in evaluate.items() if f"{UNSEEN}_success_rate" in found]
    header = ["player", "invalid replies", "success (95 %)", "episodes"]
    rows = []
    for name in sorted(names, key=lambda name: (PLAYERS.index(name) if name in PLAYERS else len(PLAYERS), name)):
        found = evaluate[name]
        invalid, episodes = (figure(found, f"{UNSEEN}_{key}") for key in ("invalid_rate", "episodes"))
        rows.append([name, percent(invalid), share(found, f"{UNSEEN}_success_rate"), str(episodes)])
    heading = "In situations that training never played, such as boards of other sizes:"
    return [f"{heading}\n\n{table(header, rows)}"] if rows else []


def unseen_seeds_table(records: Sequence[Figures]) -> list[str]:
    """One row for each seed, in situations unlike those of training; an empty list if there were none.

    Args:
        records: those of all seeds, as `seed_row` takes them.
    """
    name = f"{UNSEEN}_success_rate"
    players = ("final", "sft", "random", "expert")
    header = ["seed", *(f"{player} (95 %)" for player in players), "final, sft", "final, random"]
    rows = []
    for record in records:
        evaluate = figure(record, "evaluate")
        if any(name not in evaluate.get(player, {}) for player in players):
            return []
        final, *others = (evaluate[player] for player in players)
        compared = ("apart" if intervals_apart(final, other, name) else "overlap" for other in others[:2])
        rows.append([str(figure(record, "seed")), *(share(evaluate[player], name) for player in players), *compared])
    return [f"There, in situations that training never played:\n\n{table(header, rows)}"]


def games_table(evaluate: Figures, seat: str = "", policy: str = "final") -> str:
    """One row for each game, with the success rates of a policy and of the other players, by seat.

    Then the share of the gap between the worst and the best of these players that the policy closes and, if it was
    computed, its normalised relative advantage over the opponent of the main seat.
    """
    games: Figures = figure(evaluate, "games")
    others = [name for name in evaluate if name not in PLAYERS and "gap_closed" not in evaluate[name]]
    others = [name for name in others if "success_rate" in evaluate[name]]
    others.sort(key=lambda name: float(evaluate[name]["success_rate"]))
    players = [*others[:1], policy, *others[1:]]
    further = [f"{other}_" for other in further_seats(evaluate[policy])]
    seats = ["", *further]
    header = ["game", *(f"{player}, {prefix.rstrip('_') or seat}" for prefix in seats for player in players)]
    rows, compared = [], "relative_advantage" in evaluate[policy]
    for game, found in [*games.items(), ("all", evaluate)]:
        cells = [percent(figure(found[player], f"{prefix}success_rate")) for prefix in seats for player in players]
        advantage = [f"{found[policy]['relative_advantage']:+.2f}"] if compared else []
        rows.append([game, *cells, share(found[policy], "gap_closed"), *advantage])
    heading = f"Success by game, and the share of the gap closed by `{policy}` (95 %):"
    header += ["gap closed", "relative advantage"] if compared else ["gap closed"]
    return f"{heading}\n\n{table(header, rows)}"


def reward_model_line(metrics: Figures) -> str:
    """The accuracy of the reward model, and of the baselines that see only the answers or only the prompt."""
    ranked, pairs = share(metrics, "held_out_accuracy"), figure(metrics, "held_out_pairs")
    answers, prompts = (percent(figure(metrics, f"{view}_only_accuracy")) for view in ("answer", "prompt"))
    return (
        f"The reward model ranks {ranked} of {pairs} held-out pairs rightly; a judge that sees only the answers "
        f"{answers}, one that sees only the prompt {prompts}."
    )


def seed_header(seat: str = "") -> list[str]:
    """The column headings for `seed_row`."""
    success = f"{seat} success".strip()
    return [
        "seed",
        *(f"{success}, {policy} (95 %)" for policy in ("final", "sft", "demonstrators")),
        "final - sft",
        "intervals",
        *(f"invalid, {policy}" for policy in ("base", "final")),
        "reward model",
        "answers only",
        "prompt only",
    ]


def seed_row(record: Figures) -> list[str]:
    """The results of one seed; `record` is `{"seed": ..., "evaluate": {...}, "reward_model": {...}}`."""
    evaluate, reward_model = figure(record, "evaluate"), figure(record, "reward_model")
    base, sft, final, demonstrators = (figure(evaluate, name) for name in ("base", "sft", "final", "demonstrators"))
    gap = 100 * (figure(final, "success_rate") - figure(sft, "success_rate"))
    return [
        str(figure(record, "seed")),
        *(share(figures, "success_rate") for figures in (final, sft, demonstrators)),
        f"{gap:+.1f} points",
        "apart" if intervals_apart(final, sft) else "overlap",
        *(percent(figure(figures, "invalid_rate")) for figures in (base, final)),
        percent(figure(reward_model, "held_out_accuracy")),
        percent(figure(reward_model, "answer_only_accuracy")),
        percent(figure(reward_model, "prompt_only_accuracy")),
    ]


def intervals_apart(one: Figures, other: Figures, name: str = "success_rate") -> bool:
    """Whether the 95 % intervals of two success rates, or of two other figures of that name, do not overlap."""
    lows, highs = ([figure(f, f"{name}_{end}") for f in (one, other)] for end in ("low", "high"))
    return bool(max(lows) > min(highs))
