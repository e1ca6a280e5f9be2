"""What differs between two runs, or between one run at two revisions: parameters, code, data, and what it did.

Only git, `params.yaml`, `dvc.lock` and the metrics are read, so nothing has to be checked out or in the cache.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from castaway.config.params import STAGE_SECTIONS
from castaway.errors import CastawayError
from castaway.metrics.cells import share
from castaway.metrics.markdown import table
from castaway.metrics.policies import POLICIES
from castaway.tools.dotted import flatten

NOW = "now"
"""How the working tree is called where a revision is named."""


@dataclass(frozen=True)
class Side:
    """A run at a revision."""

    name: str
    """As it is called in the tables."""
    params: Mapping[str, Any]
    """Dotted key to value: what its stages compute with, the overrides of the run applied."""
    code: Mapping[str, str]
    """Path to hash, of the code that its stages depend on."""
    data: Mapping[str, str]
    """Output to hash; outputs of the run itself begin with the name of their stage."""
    results: Mapping[str, Any]
    """The metrics of its evaluation; empty if there are none."""


@dataclass(frozen=True)
class Differences:
    """What differs between two sides."""

    before: Side
    after: Side

    @property
    def params(self) -> dict[str, tuple[str, str]]:
        """Dotted key to the two values, as typed into the file; `-` where a side lacks the key."""
        pairs = _pairs(self.before.params, self.after.params)
        return {key: (_typed(one), _typed(other)) for key, (one, other) in pairs.items()}

    @property
    def code(self) -> list[str]:
        """The paths that are not the same on both sides."""
        return list(_pairs(self.before.code, self.after.code))

    @property
    def data(self) -> list[str]:
        """The outputs that are not the same on both sides."""
        return list(_pairs(self.before.data, self.after.data))

    @property
    def results(self) -> list[tuple[str, str, str, str]]:
        """Policy, the two success rates with their intervals, and whether these are apart."""
        found = []
        for policy in POLICIES:
            one, other = (side.results.get(policy) for side in (self.before, self.after))
            if one and other:
                rates = [(each["success_rate_low"], each["success_rate_high"]) for each in (one, other)]
                apart = max(low for low, _ in rates) > min(high for _, high in rates)
                said = "same" if one == other else "apart" if apart else "overlap"
                found.append((policy, share(one, "success_rate"), share(other, "success_rate"), said))
        return found

    def __bool__(self) -> bool:
        return bool(self.params or self.code or self.data)

    def report(self) -> str:
        """The differences as text."""
        before, after = self.before.name, self.after.name
        if not self:
            return f"{before} and {after} have the same parameters, code and data."
        parts = [f"{before} -> {after}"]
        if self.params:
            rows = [[key, *values] for key, values in self.params.items()]
            parts.append(table(["parameter", before, after], rows, figures=False))
        for title, names in (("code that differs", self.code), ("outputs that differ", self.data)):
            told = "\n".join(f"  {name}" for name in names) or "  all the same"
            parts.append(f"{title}:\n{told}")
        if self.results:
            rows = [list(row) for row in self.results]
            parts.append(table(["success (95 %)", before, after, "intervals"], rows, figures=False))
        return "\n\n".join(parts)

    def as_json(self) -> str:
        """The same for programs."""
        content = {
            "before": self.before.name,
            "after": self.after.name,
            "params": self.params,
            "code": self.code,
            "data": self.data,
            "success": [
                dict(zip(("policy", "before", "after", "intervals"), row, strict=True)) for row in self.results
            ],
        }
        return json.dumps(content, indent=2, ensure_ascii=False)


def compare(root: Path, before: str, after: str) -> list[Differences]:
    """The differences between two sides, each `RUN`, `REVISION` or `REVISION:RUN`.

    Two revisions without runs are compared in every run that both have.

    Raises:
        CastawayError: there is no such run or revision, or the two name no run in common.
    """
    places = [_place(root, name) for name in (before, after)]
    runs = [run for _, run in places]
    if not any(runs):
        both = [set(_runs(root, revision)) for revision, _ in places]
        pairs = [(run, run) for run in _runs(root, places[1][0]) if run in both[0]]
    else:
        pairs = [(runs[0] or runs[1], runs[1] or runs[0])]
    if not pairs:
        raise CastawayError(f"{before} and {after} have no run in common")
    return [Differences(side(root, places[0][0], one), side(root, places[1][0], other)) for one, other in pairs]


def side(root: Path, revision: str, run: str) -> Side:
    """One run as it is at a revision; the working tree, if that is empty.

    Raises:
        CastawayError: it has no such run, or its dvc.lock cannot be read.
    """
    document = params_at(root, revision)
    if run not in document.get("tasks", {}):
        known = ", ".join(document.get("tasks", {})) or "none"
        raise CastawayError(f"{revision or 'params.yaml'} has no run {run}; it has {known}")
    base = str(document["tasks"][run].get("base", ""))
    stages = (_yaml(root, revision, "dvc.lock") or {}).get("stages", {})
    own = [entry for name, entry in stages.items() if name.endswith(f"@{run}") or name == f"base@{base}"]
    code = {dep["path"]: str(dep.get("md5", "")) for entry in own for dep in entry.get("deps", [])}
    outs = {out["path"]: str(out.get("md5", "")) for entry in own for out in entry.get("outs", [])}
    results = _text(root, revision, f"data/{run}/metrics/evaluate.json")
    return Side(
        name=f"{revision or NOW}:{run}",
        params=effective(document, run),
        code={path: md5 for path, md5 in code.items() if not path.startswith("data/")},
        data={
            path.removeprefix(f"data/{run}/").removeprefix("data/"): md5
            for path, md5 in outs.items()
            if Path(path).parent.name not in ("runs", "metrics", "plots")
        },
        results=json.loads(results) if results else {},
    )


def effective(document: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The parameters of a run by dotted key: the sections with its overrides, its game, and its base model's block.

    As in `Params.for_run`, an override replaces its key as a whole, also if that holds further keys.
    """
    block = document["tasks"][run]
    sections = {name: value for name, value in document.items() if name not in ("tasks", "bases")}
    for name in STAGE_SECTIONS:
        if name in block:
            sections[name] = {**sections.get(name, {}), **block[name]}
    own = {name: value for name, value in block.items() if name not in STAGE_SECTIONS}
    named = {f"bases.{block.get('base')}": document.get("bases", {}).get(block.get("base"), {})}
    return flatten({**sections, **own, **named})


def _place(root: Path, name: str) -> tuple[str, str]:
    """The revision and the run that a text names; either may be empty, for the working tree and for every run."""
    revision, colon, run = name.rpartition(":")
    if colon:
        return "" if revision == NOW else revision, run
    if name == NOW:
        return "", ""
    return ("", name) if name in _runs(root, "") else (name, "")


def _runs(root: Path, revision: str) -> list[str]:
    return list(params_at(root, revision).get("tasks", {}))


def params_at(root: Path, revision: str) -> dict[str, Any]:
    """The content of params.yaml at a revision; of the working tree, if that is empty.

    Raises:
        CastawayError: there is none.
    """
    found = _yaml(root, revision, "params.yaml")
    if not isinstance(found, dict):
        if revision and not _is_commit(root, revision):
            raise CastawayError(f"there is no run and no revision {revision}; name a run, a revision, or REVISION:RUN")
        raise CastawayError(f"{revision or root} has no params.yaml; name a run, a revision, or REVISION:RUN")
    return found


def _is_commit(root: Path, revision: str) -> bool:
    command = ["git", "rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def _yaml(root: Path, revision: str, path: str) -> Any:
    text = _text(root, revision, path)
    try:
        return YAML(typ="safe", pure=True).load(text) if text else None
    except YAMLError as error:
        raise CastawayError(f"{revision or 'the'} {path} is not YAML ({type(error).__name__})") from None


def _text(root: Path, revision: str, path: str) -> str | None:
    """A file as it is at a revision; None if it is not there."""
    if not revision:
        return (root / path).read_text("utf-8") if (root / path).is_file() else None
    # `--end-of-options`: a revision that begins with a dash is none of git's options.
    command = ["git", "show", "--end-of-options", f"{revision}:{path}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The values of both sides for each key whose values differ, in the order of the keys on the second side."""
    names = dict.fromkeys([*other, *one])
    return {
        name: (one.get(name, ...), other.get(name, ...)) for name in names if one.get(name, ...) != other.get(name, ...)
    }


def _typed(value: Any) -> str:
    return "-" if value is ... else json.dumps(value, ensure_ascii=False, default=str)
