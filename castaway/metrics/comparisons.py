"""Tables of what benchmarks measured beside the build: other ways to train, and parts left out."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean as mean

from castaway.metrics.cells import Figures, figure, further_seats, policy_cells, share
from castaway.metrics.markdown import percent, table


def imitation_table(found: Figures, seat: str = "") -> str:
    """The results of SFT on the expert's own moves, one row per seed, which RL is measured against."""
    first = figure(found, min(found, default="1"))
    others = further_seats(first)
    wins = [f"{other} success (95 %)" for other in others]
    header = ["seed", "invalid replies", f"{seat} success (95 %)".strip(), *wins, "mean return", "episodes", "block"]
    rows = [[seed, *policy_cells(one, others), str(figure(one, "block"))] for seed, one in sorted(found.items())]
    revisions = ", ".join(sorted({str(figure(one, "revision")) for one in found.values()}))
    return (
        f"SFT on {figure(first, 'demonstrations')} of the expert's own moves, as many as SFT and the pairs hold "
        f"together, at commit {revisions}:\n\n{table(header, rows)}"
    )


def traitors_table(found: Figures, seat: str = "") -> str:
    """The success of MAROONED's crews, one column each, against traitors with different habits."""
    crews: Figures = figure(found, "crews")
    traitors = list(next(iter(crews.values())))
    rows = [[traitor, *(share(crews[crew][traitor], "success_rate") for crew in crews)] for traitor in traitors]
    games, revision = figure(found, "episodes"), figure(found, "revision")
    return (
        f"{f'{seat} success'.strip().capitalize()} against other traitors than the saboteur, the only one in training; "
        f"{games} validation games each, at commit {revision}:\n\n{table(['traitor', *crews], rows)}"
    )


def ablation_table(found: Figures, seat: str = "") -> str:
    """The results of PPO without one of its parts: one row per variant, one column per seed, and the means."""
    return f"PPO without one of its parts, {_asked(found, 'held-out')}:\n\n{_by_seed(found, 'ppo', seat)}"


def corrections_table(found: Figures, seat: str = "") -> str:
    """The results of training on PPO's corrections in several ways: one row per way, one column per seed, and means."""
    return f"Training on PPO's corrections, {_asked(found, 'validation')}:\n\n{_by_seed(found, 'after PPO', seat)}"


def _by_seed(found: Figures, first: str, seat: str) -> str:
    """One row per variant, one column per seed, and the means of success and invalid replies."""
    seeds = seeds_of(found)
    header = [first, *(f"seed {seed}" for seed in seeds), f"{seat} success, mean".strip(), "invalid replies, mean"]
    rows = []
    for variant, runs in found.items():
        cells = [share(runs[seed], "success_rate") if seed in runs else "-" for seed in seeds]
        columns = [[figure(one, name) for one in runs.values()] for name in ("success_rate", "invalid_rate")]
        rows.append([variant, *cells, *(mean_of(values, seeds) for values in columns)])
    return table(header, rows)


def _asked(found: Figures, kind: str) -> str:
    """How many episodes each variant played, and at which commit."""
    every = [one for runs in found.values() for one in runs.values()]
    revisions = sorted({str(one["revision"]) for one in every if "revision" in one})
    at = f", at commit {', '.join(revisions)}" if revisions else ""
    return f"{min(figure(one, 'episodes') for one in every)} {kind} episodes each{at}"


def hints_table(found: Figures, seat: str = "") -> str:
    """The success after PPO with a hint hidden from all prompts: one row per hint, one column per seed, and means."""
    seeds = seeds_of(found)
    means_of = [f"{f'{seat} success'.strip()}, {policy}, mean" for policy in ("ppo", "sft")]
    header = ["hidden", *(f"seed {seed}" for seed in seeds), *means_of, "invalid replies, mean"]
    rows = []
    for hint, runs in found.items():
        cells = [share(figure(runs[seed], "ppo"), "success_rate") if seed in runs else "-" for seed in seeds]
        columns = [
            [figure(figure(one, policy), name) for one in runs.values()]
            for policy, name in (("ppo", "success_rate"), ("sft", "success_rate"), ("ppo", "invalid_rate"))
        ]
        rows.append([hint, *cells, *(mean_of(values, seeds) for values in columns)])
    every = [one for runs in found.values() for one in runs.values()]
    kind = f" of {figure(every[0], 'kind')}" if figure(every[0], "kind") else ""
    revisions = ", ".join(sorted({str(figure(one, "revision")) for one in every}))
    return (
        f"SFT, reward model and PPO with a hint hidden from all prompts, {figure(every[0], 'episodes')} validation "
        f"episodes{kind} each, at commit {revisions}:\n\n{table(header, rows)}"
    )


def mean_of(values: Sequence[float], seeds: Sequence[str]) -> str:
    """The mean over all seeds; a dash if one is missing, since a mean over others says something else."""
    return percent(mean(values)) if len(values) == len(seeds) else "-"


def seeds_of(found: Figures) -> list[str]:
    """The seeds of all rows, in their order."""
    return sorted({seed for runs in found.values() for seed in runs}, key=lambda seed: (len(seed), seed))
