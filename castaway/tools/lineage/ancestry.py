"""The ancestors of an artifact, joined by hash: never by path, which may hold something newer by now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.tools.differences import effective, params_at
from castaway.tools.dotted import flatten
from castaway.tools.lineage.locked import Locked

SHORTEST = 6
"""Characters of a hash or a run's id that must be given at least."""


@dataclass(frozen=True)
class Ancestor:
    """A stage that an artifact comes from, and the run that made its outputs."""

    stage: str
    artifact: str
    outputs: Mapping[str, str]
    """Path to md5."""
    run: str
    """The id of the MLflow run that made these outputs; empty if no record says so."""
    exact: bool
    """Whether that run had exactly these inputs; not so after `dvc commit`, for example."""
    commit: str
    """The commit that the run began with, `+dirty` if there were changes; empty if not known."""
    began: str
    device: str
    params: Mapping[str, tuple[str, str]]
    """Dotted key to the value of the last commit and the value it was made with, where these differ."""
    metrics: Mapping[str, float]
    """Success rates of an evaluation; the figures at the top of the metrics of any other stage."""
    inputs: Mapping[str, str]
    """Path to md5 of the data that it read."""
    makers: Mapping[str, str]
    """Path of an input to the stage that made exactly these bytes. Other inputs were replaced since."""


def wanted(stages: Mapping[str, Locked], target: str) -> list[str]:
    """The stages that a target names.

    Args:
        stages: the stages of `dvc.lock`.
        target: a run (its final artifacts, which no other stage reads), `RUN/STAGE`, `STAGE@RUN`, a path in `data`,
            the beginning of an output's md5, or the beginning of an MLflow run's or model's id; empty: all final ones.

    Raises:
        CastawayError: nothing is called so.
    """
    plain = target.removeprefix("./").removeprefix("data/").strip("/")
    if plain in stages:
        return [plain]
    path = f"data/{plain}"
    found = [one.address for one in stages.values() if any(_holds(out, path) for out in one.outs)]
    if not found:
        read = {name for one in stages.values() for name in one.dependencies}
        of_run = [one for one in stages.values() if plain in ("", one.run)]
        final = [one for one in of_run if one.artifact not in read]
        found = [one.address for one in final or of_run]  # a base model has no artifact that nothing reads
    if not found and len(plain) >= SHORTEST:
        found = [one.address for one in stages.values() if any(name.startswith(plain) for name in _identities(one))]
    if not found:
        raise CastawayError(
            f"dvc.lock has no stage, run, output or hash {target}; its stages are {', '.join(sorted(stages))}"
        )
    return found


def ancestry(root: Path, stages: Mapping[str, Locked], address: str) -> list[Ancestor]:
    """The stage and all that its output comes from, nearest first, each once."""
    makers = {(path, md5): one.address for one in stages.values() for path, md5 in one.outs.items()}
    document = _committed(root)
    found: dict[str, Ancestor] = {}
    waiting = [address]
    while waiting:
        stage = stages[waiting.pop(0)]
        if stage.address in found:
            continue
        known = {path: makers[path, md5] for path, md5 in stage.dependencies.items() if (path, md5) in makers}
        found[stage.address] = _ancestor(root, stage, known, document)
        waiting.extend(known.values())
    return list(found.values())


def _committed(root: Path) -> Mapping[str, Any]:
    """The content of params.yaml in the last commit; empty where there is none, so that nothing differs from it."""
    try:
        return params_at(root, "HEAD")
    except CastawayError:
        return {}


def _ancestor(root: Path, stage: Locked, makers: Mapping[str, str], document: Mapping[str, Any]) -> Ancestor:
    record = stage.record if stage.known else {}
    return Ancestor(
        stage=stage.address,
        artifact=stage.artifact,
        outputs=stage.outs,
        run=str(record.get("run_id") or ""),
        exact=stage.recorded,
        commit=str(record.get("revision") or ""),
        began=str(record.get("began") or ""),
        device=str(record.get("device") or ""),
        params=dict(_changed(stage, document)),
        metrics=_metrics(root, stage),
        inputs=stage.dependencies,
        makers=makers,
    )


def _holds(out: str, path: str) -> bool:
    return path == out or path.startswith(f"{out}/")


def _identities(stage: Locked) -> list[str]:
    known = [str(stage.record[key]) for key in ("run_id", "model_id") if stage.record.get(key)]
    return [*stage.outs.values(), *known]


def _changed(stage: Locked, document: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The parameters whose value in the last commit is another one than the stage was made with."""
    run = stage.run
    shipped = effective(document, run) if run in document.get("tasks", {}) else flatten(document)
    for key, made in stage.params.items():
        key = key.removeprefix(f"tasks.{run}.")
        if key in shipped and shipped[key] != made:
            yield key, (json.dumps(shipped[key]), json.dumps(made))


def _metrics(root: Path, stage: Locked) -> dict[str, float]:
    """The figures of the stage, if the file is still the one that it wrote."""
    found = stage.metrics(root)
    if stage.name == "evaluate":
        found = {key: value for key, value in found.items() if key.endswith(".success_rate") and key.count(".") == 1}
    return {key: value for key, value in found.items() if isinstance(value, int | float) and key.count(".") < 2}
