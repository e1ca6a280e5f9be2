"""Formats the figures of evaluation as Markdown tables."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from castaway.config.errors import CastawayError
from castaway.config.sections import POLICIES
from castaway.metrics import ledger
from castaway.metrics.built import Figures, built, from_file, from_stage, read_as, stages_of
from castaway.metrics.experiments import experiment_table
from castaway.metrics.markdown import UNSEEN, further_seats, percent, policy_cells, share, table

PLAYERS = (*POLICIES, "demonstrators", "expert")
"""The rows of the results: the policies, the demonstrators, from whom SFT learned, and the expert behind them.

Other players with a success rate, which the task adds for comparison, come last."""


def run_report(root: Path, run: str, seat: str = "") -> str:
    """All tables of one run; `seat` names the main one in the headings. CastawayError if a figure is missing."""
    key = str(built(root, run, "evaluate").record.get("stage_key", ""))
    asked = ledger.sentence(ledger.read(root / "data" / run / "metrics" / ledger.FILE), key)

    def evaluation(evaluate: Figures) -> list[str]:
        games = [games_table(evaluate, seat)] if "games" in evaluate else []
        return [results_table(evaluate, seat), asked, *games, *shares_table(evaluate), *unseen_table(evaluate)]

    parts: list[str] = from_stage(root, run, "evaluate", evaluation)
    if built(root, run, "reward_model").figures:
        parts.append(from_stage(root, run, "reward_model", reward_model_line))
    for path in sorted((root / "data" / run / "experiments").glob("*.json")):
        parts.append(f"#### {path.stem}\n\n{from_file(path, experiment_table)}")
    records = [built(root, run, stage).record for stage in stages_of(root, run)]
    parts += read_as(root / "data" / run / "runs", records, times_table)
    return "\n\n".join(parts)


def times_table(records: Sequence[Figures]) -> list[str]:
    """What each stage of a run took, in the order in which they ran; an empty list if there are no run records."""
    rows = [
        [
            record["stage"].partition("@")[0],
            f"{record['seconds'] / 60:.1f}",
            f"{record['peak_memory_gib']:.1f}" if "peak_memory_gib" in record else "-",
            record["device"],
            record["revision"][:7],
        ]
        for record in sorted(filter(None, records), key=lambda record: str(record["began"]))
    ]
    header = ["stage", "minutes", "peak memory, GiB", "device", "commit"]
    return [f"What each stage took:\n\n{table(header, rows)}"] if rows else []


def results_table(evaluate: Figures, seat: str = "") -> str:
    known = [policy for policy in PLAYERS if policy in evaluate]
    if not known:
        raise CastawayError(f"none of the policies {', '.join(PLAYERS)} is in it")
    known += [name for name, figures in evaluate.items() if name not in PLAYERS and "success_rate" in figures]
    others = further_seats(evaluate[known[0]])
    rows = [[policy, *policy_cells(evaluate[policy], others)] for policy in known]
    wins = [f"{name} success (95 %)".strip() for name in (seat, *others)]
    return table(["policy", "invalid replies", *wins, "mean return", "episodes"], rows)


def shares_table(evaluate: Figures) -> list[str]:
    """One row for each policy, with the task's own shares that have intervals; an empty list if there are none."""
    bounded = [name.removesuffix("_low") for name in evaluate["final"] if name.endswith("_low")]
    usual = ("success_rate", "invalid_rate", "mean_return", "gap_closed")
    own = [name for name in bounded if not name.endswith(usual)]
    if not own:
        return []
    rows = [
        [policy, *(share(evaluate[policy], name) if name in evaluate[policy] else "-" for name in own)]
        for policy in PLAYERS
        if policy in evaluate
    ]
    return [table(["policy", *(name.replace("_", " ") for name in own)], rows)]


def unseen_table(evaluate: Figures) -> list[str]:
    """One row for each player, in situations unlike those of training; an empty list if there were none."""
    names = [name for name, figures in evaluate.items() if f"{UNSEEN}_success_rate" in figures]
    header = ["player", "invalid replies", "success (95 %)", "episodes"]
    rows = []
    for name in sorted(names, key=lambda name: (PLAYERS.index(name) if name in PLAYERS else len(PLAYERS), name)):
        figures = evaluate[name]
        invalid, episodes = (figures[f"{UNSEEN}_{key}"] for key in ("invalid_rate", "episodes"))
        rows.append([name, percent(invalid), share(figures, f"{UNSEEN}_success_rate"), str(episodes)])
    heading = "In situations that training never played, such as boards of other sizes:"
    return [f"{heading}\n\n{table(header, rows)}"] if rows else []


def games_table(evaluate: Figures, seat: str = "") -> str:
    """One row for each game: success in the main seat by player, weakest first, then that of `final` in other seats.

    At the end the share of the gap between random player and search that `final` closes, how much a best response wins
    from it, where that was examined, and its invalid replies.
    """
    games, policy = evaluate["games"], POLICIES[-1]
    others = [name for name in evaluate if name not in PLAYERS and "gap_closed" not in evaluate[name]]
    others = [name for name in others if "success_rate" in evaluate[name]]
    others.sort(key=lambda name: float(evaluate[name]["success_rate"]))
    players = [*others[:1], *(name for name in ("sft", policy, "expert") if name in evaluate), *others[1:]]
    seats = further_seats(evaluate[policy])
    rows = []
    for game, figures in [*games.items(), ("all", evaluate)]:
        cells = [percent(figures[player]["success_rate"]) for player in players]
        cells += [percent(figures[policy][f"{other}_success_rate"]) for other in seats]
        exploited = evaluate[policy].get(f"exploitability_{game}")
        cells += [share(figures[policy], "gap_closed"), "-" if exploited is None else f"{exploited:.2f}"]
        rows.append([game, *cells, percent(figures[policy]["invalid_rate"])])
    against = f" against {seat}" if seat else ""
    further = ["gap closed", "exploitability", "invalid"]
    header = ["game", *players, *(f"{policy}, {other}" for other in seats), *further]
    return f"Success by game{against}, and further figures of `{policy}`:\n\n{table(header, rows)}"


def reward_model_line(metrics: Figures) -> str:
    ranked, pairs = share(metrics, "held_out_accuracy"), metrics["held_out_pairs"]
    answers, prompts = (percent(metrics[f"{view}_only_accuracy"]) for view in ("answer", "prompt"))
    return (
        f"The reward model ranks {ranked} of {pairs} held-out pairs rightly; a judge that sees only the answers "
        f"{answers}, one that sees only the prompt {prompts}."
    )


def intervals_apart(one: Figures, other: Figures) -> bool:
    lows, highs = ([f[f"success_rate_{end}"] for f in (one, other)] for end in ("low", "high"))
    return bool(max(lows) > min(highs))


HEADER = ("run", "policy", "success (95 %)", "invalid replies", "episodes")


def headline_table(root: Path, runs: Iterable[str]) -> str:
    """A Markdown table with three rows per run. All policies of a run played the same held-out episodes."""
    return table(HEADER, [[run, *row] for run in runs for row in from_stage(root, run, "evaluate", headline_rows)])


def headline_rows(evaluate: Figures) -> list[list[str]]:
    return [
        [policy, share(one, "success_rate"), percent(one["invalid_rate"]), str(one["episodes"])]
        for policy, one in ((policy, evaluate[policy]) for policy in POLICIES[1:])
    ]


def verdict(evaluate: Figures) -> str:
    """Whether PPO changed the success rate by more than chance, and what players without a model reach."""
    sft, ppo = evaluate["sft"], evaluate["ppo"]
    before, after = (percent(figures["success_rate"]) for figures in (sft, ppo))
    chance = "the intervals are apart" if intervals_apart(sft, ppo) else "the intervals overlap: perhaps chance"
    others = {"random": "moves drawn by lot", "expert": "the scripted expert"}
    rates = {words: evaluate.get(name, {}).get("success_rate") for name, words in others.items()}
    reached = ", ".join(f"{words} {percent(rate)}" for words, rate in rates.items() if rate is not None)
    return f"{before} after SFT, {after} after PPO: {chance}." + f" For comparison: {reached}." * bool(reached)
