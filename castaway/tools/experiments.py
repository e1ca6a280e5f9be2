"""A table of experiments: builds with other parameters, those that differ in the seed alone folded into one row.

An experiment is a commit: one that a revision names, or one that `dvc exp run` made. As for `castaway diff`, only git,
params.yaml and the metrics are read.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.metrics.intervals import Interval
from castaway.metrics.markdown import table
from castaway.metrics.over_seeds import over_seeds
from castaway.metrics.policies import POLICIES
from castaway.tools.differences import NOW, Side, params_at, side

REFERENCES = "refs/exps"
"""Where DVC keeps its experiments: `refs/exps/AB/CDEF.../NAME`, below the commit that they began with."""
SEED = "seed"


@dataclass(frozen=True)
class Row:
    """Builds of one run that have all parameters but the seed in common."""

    run: str
    names: tuple[str, ...]
    """The experiments."""
    seeds: tuple[int, ...]
    params: Mapping[str, Any]
    """Dotted key to value, without the seed."""
    success: Mapping[str, Interval]
    """Policy to success: the mean over seeds with its interval; of a single build its own."""

    def changed(self, first: Row) -> dict[str, Any]:
        """The parameters that are not those of another row."""
        names = dict.fromkeys([*self.params, *first.params])
        return {
            name: self.params.get(name) for name in names if self.params.get(name, ...) != first.params.get(name, ...)
        }


def key_for(params: Params, run: str, key: str) -> str:
    """The dotted key of params.yaml that sets `SECTION.NAME` for a run: in the run's block, if that overrides it."""
    section, _, name = key.partition(".")
    own = params.tasks[run].overrides.get(section, {})
    return f"tasks.{run}.{key}" if name.partition(".")[0] in own else key


def experiments(root: Path) -> list[tuple[str, str]]:
    """Name and commit of DVC's experiments, the oldest first."""
    command = ["git", "for-each-ref", "--sort=creatordate", "--format=%(refname) %(objectname)", REFERENCES]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    found = []
    for line in done.stdout.splitlines():
        reference, _, commit = line.partition(" ")
        parts = reference.split("/")
        # Queues and results of running experiments are there too: refs/exps/celery/..., refs/exps/exec/...
        if len(parts) == 5 and len(parts[2]) == 2:
            found.append((parts[4], commit))
    return found


def compared(root: Path, revisions: Sequence[str], run: str = "") -> list[Row]:
    """The builds of one or every run, one row for each set of parameters; the best final policy first in each run.

    Args:
        root: the repository.
        revisions: commits and names of experiments; none stands for the working tree and all experiments.
        run: one run only.

    Raises:
        CastawayError: there is no such revision, or nothing that was evaluated.
    """
    known = dict(experiments(root))
    names = list(revisions) or [NOW, *known]
    sides = [(name, one) for name in names for one in _sides(root, "" if name == NOW else known.get(name, name), run)]
    if not sides:
        raise CastawayError(f"none of {', '.join(names)} has an evaluation{f' of {run}' if run else ''}")
    groups: dict[str, list[tuple[str, Side]]] = {}
    for name, one in sides:
        key = json.dumps([_run_of(one), _without_seed(one)], sort_keys=True, default=str)
        groups.setdefault(key, []).append((name, one))
    rows = [_row(members) for members in groups.values()]
    order = list(dict.fromkeys(row.run for row in rows))
    return sorted(rows, key=lambda row: (order.index(row.run), -row.success[POLICIES[-1]].value))


def as_table(rows: Sequence[Row]) -> str:
    """The rows as text; parameters are named where they differ from those of the run's first row."""
    firsts: dict[str, Row] = {}
    for row in rows:
        firsts.setdefault(row.run, row)
    cells = [
        [
            row.run,
            ", ".join(row.names),
            ", ".join(map(str, row.seeds)),
            ", ".join(f"{key}={json.dumps(value)}" for key, value in row.changed(firsts[row.run]).items()) or "-",
            *(_share(row.success[policy]) for policy in POLICIES[1:]),
        ]
        for row in rows
    ]
    return table(["run", "experiments", "seeds", "parameters", *POLICIES[1:]], cells, figures=False)


def as_json(rows: Iterable[Row]) -> str:
    """The same for programs, with all parameters."""
    content = [
        {
            "run": row.run,
            "experiments": row.names,
            "seeds": row.seeds,
            "params": dict(row.params),
            "success": {name: one.entries("success_rate") for name, one in row.success.items()},
        }
        for row in rows
    ]
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def _sides(root: Path, revision: str, run: str) -> list[Side]:
    """The runs of a revision that were evaluated."""
    runs = [name for name in params_at(root, revision).get("tasks", {}) if run in ("", name)]
    found = [side(root, revision, name) for name in runs]
    return [one for one in found if all(policy in one.results for policy in POLICIES)]


def _row(members: Sequence[tuple[str, Side]]) -> Row:
    """The builds of one set of parameters; of several with one seed, which are equal, the first counts."""
    by_seed: dict[int, Side] = {}
    for _, one in members:
        by_seed.setdefault(int(one.params.get(SEED, 0)), one)
    first = members[0][1]
    success = {}
    for policy in POLICIES:
        figures = [one.results[policy] for one in by_seed.values()]
        if len(figures) == 1:
            value, low, high = (float(figures[0][f"success_rate{end}"]) for end in ("", "_low", "_high"))
            success[policy] = Interval(value, low, high)
        else:
            success[policy] = over_seeds([float(one["success_rate"]) for one in figures])
    names = tuple(dict.fromkeys(name for name, _ in members))
    return Row(_run_of(first), names, tuple(sorted(by_seed)), _without_seed(first), success)


def _run_of(one: Side) -> str:
    return one.name.rpartition(":")[2]


def _without_seed(one: Side) -> dict[str, Any]:
    return {key: value for key, value in one.params.items() if key != SEED}


def _share(one: Interval) -> str:
    return f"{100 * one.value:.1f} % ({100 * one.low:.1f} to {100 * one.high:.1f})"
