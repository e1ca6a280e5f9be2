"""The ancestors of an artifact, joined by hash, as text or JSON.

Never by path, which may hold something newer by now.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.yaml_file import flatten
from castaway.metrics.built import Locked
from castaway.tools.experiments import effective, params_at

WIDTH = 100  # columns of the text
FIRST = ("final.success_rate", "last_validation_success_rate", "held_out_accuracy", "loss")
"""The figures that are shown in the text, if a stage has them; of another, its first one."""
OLDER = "made before the one that is there now; run unknown"
SHORTEST = 6  # characters of a hash or a run's id that must be given at least


@dataclass(frozen=True)
class Ancestor:
    """A stage that an artifact comes from, and the run that made its outputs."""

    stage: str
    artifact: str
    outputs: Mapping[str, str]  # path to md5
    run: str  # the id of the MLflow run that made these outputs; empty if no record says so
    exact: bool  # whether that run had exactly these inputs; not so after `dvc commit`, for example
    commit: str  # the commit that the run began with, `+dirty` if there were changes; empty if not known
    began: str
    params: Mapping[str, tuple[str, str]]
    """Dotted key to the value of the last commit and the value it was made with, where these differ."""
    metrics: Mapping[str, float]
    """Success rates of an evaluation; the figures at the top of the metrics of any other stage."""
    inputs: Mapping[str, str]  # path to md5 of the data that it read
    makers: Mapping[str, str]
    """Path of an input to the stage that made exactly these bytes. Other inputs were replaced since."""


def wanted(stages: Mapping[str, Locked], target: str) -> list[str]:
    """The stages that a target names, all final ones if it is empty.

    A target is a run (its final artifacts, which no other stage reads), `RUN/STAGE`, `STAGE@RUN`, a path in `data`, the
    beginning of an output's md5, or the beginning of an MLflow run's or model's id.
    """
    plain = target.removeprefix("./").removeprefix("data/").strip("/")
    if plain in stages:
        return [plain]
    path = f"data/{plain}"
    known = stages.values()
    addresses = [one.address for one in known if any(path == out or path.startswith(f"{out}/") for out in one.outs)]
    if not addresses:
        read = {name for one in known for name in one.dependencies}
        of_run = [one for one in known if plain in ("", one.run)]
        final = [one for one in of_run if one.artifact not in read]
        addresses = [one.address for one in final or of_run]  # a base model has no artifact that nothing reads
    if not addresses and len(plain) >= SHORTEST:
        for one in known:
            ids = [*one.outs.values(), one.record.get("run_id"), one.record.get("model_id")]
            addresses += [one.address] if any(str(name or "").startswith(plain) for name in ids) else []
    if not addresses:
        names = sorted({*stages, *(one.run for one in known)})
        raise CastawayError(f"dvc.lock has no stage, run, output or hash {target}; {did_you_mean(plain, names)}")
    return addresses


def ancestry(root: Path, stages: Mapping[str, Locked], address: str) -> list[Ancestor]:
    """The stage and all that its output comes from, nearest first, each once."""
    makers = {(path, md5): one.address for one in stages.values() for path, md5 in one.outs.items()}
    try:
        document = params_at(root, "HEAD")
    except CastawayError:  # without a commit, nothing differs from it
        document = {}
    ancestors: dict[str, Ancestor] = {}
    waiting = [address]
    while waiting:
        stage = stages[waiting.pop(0)]
        if stage.address not in ancestors:
            made = {path: makers[path, md5] for path, md5 in stage.dependencies.items() if (path, md5) in makers}
            ancestors[stage.address] = _ancestor(stage, made, document)
            waiting += made.values()
    return list(ancestors.values())


def _ancestor(stage: Locked, makers: Mapping[str, str], document: Mapping[str, Any]) -> Ancestor:
    record, run = stage.record if stage.known else {}, stage.run
    shipped = effective(document, run) if run in document.get("tasks", {}) else flatten(document)
    made_with = {key.removeprefix(f"tasks.{run}."): value for key, value in stage.params.items()}
    figures = {key: value for key, value in flatten(stage.figures).items() if isinstance(value, int | float)}
    return Ancestor(
        stage=stage.address,
        artifact=stage.artifact,
        outputs=stage.outs,
        run=str(record.get("run_id") or ""),
        exact=stage.recorded,
        commit=str(record.get("revision") or ""),
        began=str(record.get("began") or ""),
        params={
            key: (json.dumps(shipped[key]), json.dumps(value))
            for key, value in made_with.items()
            if key in shipped and shipped[key] != value
        },
        metrics={
            key: value
            for key, value in figures.items()
            if key.count(".") < 2 and (key.endswith(".success_rate") or stage.name != "evaluate")
        },
        inputs=stage.dependencies,
        makers=makers,
    )


def as_text(ancestors: Iterable[Ancestor]) -> str:
    """A line for each stage, the oldest first, with commit, date and one figure; below it what is unusual."""
    stages = sorted({one.stage: one for one in ancestors}.values(), key=lambda one: (one.began, one.stage))
    widest = max(len(one.stage) for one in stages)
    lines = [f"{'stage':<{widest}}  {'commit':<13}  {'date':<16}  figure"]
    for one in stages:
        commit, plus, dirty = one.commit.partition("+")
        date = one.began[:16].replace("T", " ") or "run unknown"
        other = " *" if one.began and not one.exact else ""
        lines.append(
            f"{one.stage:<{widest}}  {commit[:7] + plus + dirty:<13}  {date:<16}  {_figure(one)}{other}".rstrip()
        )
        unusual = [f"{key} {made} instead of {shipped}" for key, (shipped, made) in one.params.items()]
        unusual += [f"{path} is another one now: {OLDER}" for path in one.inputs if path not in one.makers]
        lines += wrap("; ".join(unusual), WIDTH, initial_indent="  ", subsequent_indent="  ")
    if any(line.endswith(" *") for line in lines):
        lines.append("* made with other inputs, but the same outputs")
    return "\n".join(lines)


def _figure(one: Ancestor) -> str:
    name = next((name for name in (*FIRST, *one.metrics) if name in one.metrics), "")
    value = one.metrics.get(name, 0)
    # A count in full: 12000, and not 1.2e+04.
    return f"{name} {value if isinstance(value, int) else f'{value:.4g}'}" if name else ""


def as_json(ancestries: Sequence[Sequence[Ancestor]]) -> str:
    return json.dumps([[asdict(one) for one in ancestors] for ancestors in ancestries], indent=2, ensure_ascii=False)
