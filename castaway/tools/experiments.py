"""A table of experiments: builds with other parameters, those that differ in the seed alone folded into one row.

An experiment is a commit: one that a revision names, or one that `dvc exp run` made. Only git, params.yaml, dvc.lock
and published figures are read, so nothing has to be checked out or in the cache.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from castaway.config.errors import CastawayError
from castaway.config.params import STAGE_SECTIONS
from castaway.config.sections import POLICIES
from castaway.config.yaml_file import flatten
from castaway.metrics.built import Figures, built, text_at
from castaway.metrics.experiments import over_seeds
from castaway.metrics.markdown import interval, table, with_interval
from castaway.processes.environment import git
from castaway.tasks.intervals import Interval

NOW = "now"  # how the working tree is called where a revision is named
REFERENCES = "refs/exps"
"""Where DVC keeps its experiments: `refs/exps/AB/CDEF.../NAME`, below the commit that they began with."""


@dataclass(frozen=True)
class Row:
    """Builds of one run that have all parameters but the seed in common."""

    run: str
    params: Mapping[str, Any]  # dotted key to value, without the seed
    experiments: list[str] = field(default_factory=list)
    figures: dict[int, Figures] = field(default_factory=dict)  # by seed; builds with one seed are equal

    def success(self, policy: str) -> Interval:
        """Of several seeds the mean with its interval; of a single build its own."""
        figures = [one[policy] for one in self.figures.values()]
        if len(figures) > 1:
            return over_seeds([float(one["success_rate"]) for one in figures])
        return interval(figures[0], "success_rate")

    def changed(self, first: Self) -> dict[str, Any]:
        names = dict.fromkeys([*self.params, *first.params])
        return {key: self.params.get(key) for key in names if self.params.get(key, ...) != first.params.get(key, ...)}


def experiments(root: Path) -> list[tuple[str, str]]:
    """Name and commit of DVC's experiments, the oldest first."""
    listed = git(root, "for-each-ref", "--sort=creatordate", "--format=%(refname) %(objectname)", REFERENCES) or ""
    named = [(reference.split("/"), commit) for reference, commit in map(str.split, listed.splitlines())]
    # Queues and results of running experiments are there too: refs/exps/celery/..., refs/exps/exec/...
    return [(parts[4], commit) for parts, commit in named if len(parts) == 5 and len(parts[2]) == 2]


def compared(root: Path, revisions: Sequence[str], run: str = "") -> list[Row]:
    """A row for each set of parameters, the best of each run first; without revisions, of `now` and all experiments."""
    known = dict(experiments(root))
    names, rows = list(dict.fromkeys(revisions)) or [NOW, *known], dict[str, Row]()
    for name in names:
        revision = "" if name == NOW else known.get(name, name)
        document = params_at(root, revision)
        for own in [one for one in document.get("tasks", {}) if run in ("", one)]:
            figures = built(root, own, "evaluate", revision).figures
            if all(policy in figures for policy in POLICIES):
                params = effective(document, own)
                seed = int(params.pop("seed", 0))
                row = _row_for(rows, own, params, seed, figures)
                row.experiments.append(name)
                row.figures[seed] = figures
    if not rows:
        of = f" of {run}" if run else ""
        raise CastawayError(f"none of {', '.join(names)} has an evaluation{of} whose figures are published in git")
    order = list(dict.fromkeys(row.run for row in rows.values()))
    return sorted(rows.values(), key=lambda row: (order.index(row.run), -row.success(POLICIES[-1]).value))


def _row_for(rows: dict[str, Row], run: str, params: Mapping[str, Any], seed: int, figures: Figures) -> Row:
    """The row of these parameters; a further one for a build that found something else, such as one of other code."""
    for number in count():
        key = json.dumps([run, params, number], sort_keys=True, default=str)
        row = rows.setdefault(key, Row(run, params))
        if row.figures.get(seed, figures) == figures:
            return row
    raise AssertionError


def as_table(rows: Sequence[Row]) -> str:
    """The rows as text; parameters are named where they differ from those of the run's first row."""
    firsts = {row.run: row for row in reversed(rows)}
    cells = [
        [
            row.run,
            ", ".join(row.experiments),
            ", ".join(map(str, sorted(row.figures))),
            ", ".join(f"{key}={json.dumps(value)}" for key, value in row.changed(firsts[row.run]).items()) or "-",
            *(with_interval(row.success(policy)) for policy in POLICIES[1:]),
        ]
        for row in rows
    ]
    return table(["run", "experiments", "seeds", "parameters", *POLICIES[1:]], cells, figures=False)


def as_json(rows: Iterable[Row]) -> str:
    content = [
        {
            "run": row.run,
            "experiments": row.experiments,
            "seeds": sorted(row.figures),
            "params": row.params,
            "success": {policy: row.success(policy).entries("success_rate") for policy in POLICIES},
        }
        for row in rows
    ]
    return json.dumps(content, indent=2, ensure_ascii=False, default=str)


def params_at(root: Path, revision: str) -> dict[str, Any]:
    """The content of params.yaml at a revision; of the working tree, if that is empty."""
    text = text_at(root, revision, "params.yaml")
    try:
        content = YAML(typ="safe", pure=True).load(text) if text else None
    except YAMLError as error:
        raise CastawayError(f"{revision or 'the'} params.yaml is not YAML ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise CastawayError(f"{revision or root} is no revision with a params.yaml")
    return content


def effective(document: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The parameters of a run by dotted key, as `Params.for_run` has them, with its game and its base model's block."""
    block = document["tasks"][run]
    sections = {name: value for name, value in document.items() if name not in ("tasks", "bases")}
    for name in STAGE_SECTIONS:
        if name in block:
            sections[name] = {**flatten(sections.get(name, {})), **flatten(block[name])}
    own = {name: value for name, value in block.items() if name not in STAGE_SECTIONS}
    base = {f"bases.{block.get('base')}": document.get("bases", {}).get(block.get("base"), {})}
    return flatten({**sections, **own, **base})
