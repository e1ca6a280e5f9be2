"""Tables of the declared experiments: one row for each variant and policy, with the seeds and their mean.

`data/RUN/experiments/NAME.json` has the figures, as `python -m flows experiment NAME@RUN` keeps them:

    {"about": what is varied, "figure": the share to show,
     "rows": {variant: {seed: {"revision": commit, "block": of held-out ids, "policies": {policy: figures}}}}}
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from scipy.special import stdtrit

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.metrics.built import Figures, from_file
from castaway.metrics.markdown import percent, share, table, with_interval
from castaway.tasks.intervals import Interval


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean of two or more, with its 95 % t interval (Student 1908); only the spread between seeds counts."""
    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / sqrt(len(values))
    return Interval(mean(values), mean(values) - half, mean(values) + half)


def experiment_path(root: Path, address: str) -> Path:
    """The file with the figures of an experiment, `NAME@RUN`, unless that is the path of such a file."""
    if address.endswith(".json"):
        return Path(address)
    name, _, run = address.partition("@")
    return root / "data" / run / "experiments" / f"{name}.json"


def experiment_report(root: Path, address: str, name: str = "") -> str:
    """The table of one experiment, of its `figure` or of another share; CastawayError if there is no such figure."""
    path = experiment_path(root, address)
    if not path.is_file():
        built = [f"{one.stem}@{one.parts[-3]}" for one in sorted(root.glob("data/*/experiments/*.json"))]
        how = f"`python -m flows experiment {address}` builds it if it is declared"
        raise CastawayError(f"{address} has no figures: {how}; {did_you_mean(address, built)}")
    if name and name not in (known := from_file(path, figure_names)):
        raise CastawayError(f"{address} has no figure {name!r}; {did_you_mean(name, known)}")
    return str(from_file(path, lambda content: experiment_table(content, name)))


def figure_names(content: Figures) -> list[str]:
    """The figures that any policy of an experiment has."""
    policies = (one["policies"] for row in content["rows"].values() for one in row.values())
    return sorted({name for of in policies for figures in of.values() for name in figures})


def experiment_table(content: Figures, name: str = "") -> str:
    """Each seed with the interval of its episodes, then their mean, and the mean of what it is above another row.

    The means have t intervals. A variant is compared with the first one, and a policy of a single variant with `sft`:
    seed by seed, because both begin with the same base model and are asked the same episodes. `name` is the share.
    """
    name = name or content["figure"]
    rows: Mapping[str, Mapping[str, Figures]] = content["rows"]
    shown: dict[tuple[str, str], dict[str, Figures]] = {}
    for variant, row in rows.items():
        for seed, one in row.items():
            for policy, figures in one["policies"].items():
                if name in figures:
                    shown.setdefault((variant, policy), {})[seed] = figures
    if not shown:
        raise CastawayError(f"there is no {name} of any policy")
    seeds = sorted({seed for row in rows.values() for seed in row}, key=int)
    first, several = next(iter(rows)), len(rows) > 1
    cells = []
    for (variant, policy), of in shown.items():
        other = shown.get((first, policy if several else "sft"), {})
        above = [of[seed][name] - other[seed][name] for seed in of if seed in other and other is not of]
        each = [_cell(of[seed], name) if seed in of else "-" for seed in seeds]
        means = [_mean([one[name] for one in of.values()], len(seeds)), _points(above, len(seeds))]
        cells.append([variant, policy, *each, *(means if len(seeds) > 1 else [])])
    means = ["mean (95 %)", f"above {first if several else 'sft'}"] if len(seeds) > 1 else []
    header = ["variant", "policy", *(f"seed {seed}" for seed in seeds), *means]
    builds = [one for row in rows.values() for one in row.values()]
    commits = ", ".join(sorted({one["revision"] for one in builds}))
    blocks = sorted({one["block"] for one in builds if "block" in one})
    asked = f"held-out blocks {', '.join(map(str, blocks))}" if blocks else "validation ids"
    heading = f"{content['about']}: {name.replace('_', ' ')}, {asked}, at commit {commits}."
    return f"{heading}\n\n{table(header, cells)}"


def _cell(figures: Figures, name: str) -> str:
    return share(figures, name) if f"{name}_low" in figures else percent(figures[name])


def _mean(values: Sequence[float], seeds: int) -> str:
    """A dash where a seed is missing: the others say something else. No share is below 0 or above 1."""
    if len(values) < max(2, seeds):
        return "-"
    mean_of = over_seeds(values)
    if all(0 <= value <= 1 for value in values):
        mean_of = Interval(mean_of.value, max(mean_of.low, 0.0), min(mean_of.high, 1.0))
    return with_interval(mean_of)


def _points(above: Sequence[float], seeds: int) -> str:
    """In percentage points."""
    if len(above) < max(2, seeds):
        return "-"
    mean_of = over_seeds([100 * value for value in above])
    return f"{mean_of.value:+.1f} ({mean_of.low:+.1f} to {mean_of.high:+.1f})"
