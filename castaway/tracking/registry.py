"""Registers the merged model of a run in MLflow, and makes it the champion if the run's gate lets it.

    python -m flows promote              every run that is built
    python -m flows promote marooned     one run

The driver does so at the end of a build; it can be repeated. The registered model has the name of the run, and each
merged model is one version of it: without a copy of the weights, which are in DVC's cache.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from textwrap import fill
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.params import Params
from castaway.config.sections import POLICIES, GateParams
from castaway.metrics.built import Locked, locked_stages
from castaway.metrics.markdown import percent
from castaway.processes import environment
from castaway.rollout.outcomes import FILE, outcomes_path, read_outcomes
from castaway.tasks.intervals import Z95, Interval
from castaway.tasks.registry import read_params, task_class
from castaway.tools.summary import WIDTH
from castaway.tracking.lineage import existing
from castaway.tracking.store import client, experiment_id, needed, one_line, unless_missing

CHAMPION = "champion"
FINAL = POLICIES[-1]
OUTPUT = "dvc.out"  # tag of a version: the hash of the merged model, by which it is known again
EVALUATION = "castaway.evaluation"
"""Tag of a version: the MLflow run of its evaluation, which has the outcomes of its episodes."""
GATE = "castaway.gate"  # tag of a version: what the gate said


def main(targets: Sequence[str]) -> int:
    """Register the models of the runs, and print what became of each; returns 0 if each is the champion of its run."""
    root = environment.find_root()
    params = read_params(root / "params.yaml")
    stages = locked_stages(root)
    for run in targets:
        if run not in params.tasks:
            raise CastawayError(f"params.yaml has no run {run}; {did_you_mean(run, list(params.tasks))}")
    environment.use_host(root)
    with needed():
        promotions = [promote(root, params, stages, run) for run in targets or built(stages, params)]
    none = "no run has both a merged model and an evaluation yet; `dvc repro` builds them"
    print("\n".join(said for _, said in promotions) or none)
    return int(not all(champion for champion, _ in promotions))


def after_build(root: Path, params: Params, made: Collection[str]) -> None:
    """Register what a build has made, the stages of `made`. A failure of MLflow is a warning: it costs no build."""
    for run in [run for run in params.tasks if {f"merge@{run}", f"evaluate@{run}"}.intersection(made)]:
        try:
            stages = locked_stages(root)
            if run in built(stages, params):
                print(fill(promote(root, params, stages, run)[1], WIDTH, subsequent_indent="  "))
        except Exception as error:  # whatever MLflow raises
            print(f"warning: MLflow could not register the model of {run}: {one_line(error)}", file=sys.stderr)


def built(stages: Mapping[str, Locked], params: Params) -> list[str]:
    """The runs with a merged model and an evaluation that are recorded."""
    return [
        run
        for run in params.tasks
        if all(f"{name}@{run}" in stages and stages[f"{name}@{run}"].known for name in ("merge", "evaluate"))
    ]


def promote(root: Path, params: Params, stages: Mapping[str, Locked], run: str) -> tuple[bool, str]:
    """Register the model of a run, judge it, and move the alias if it passes.

    Returns whether it is the champion now, and what became of it in words. CastawayError if the model or its evaluation
    is missing, or they are of different weights.
    """
    merged, judged = _recorded(stages, f"merge@{run}"), _recorded(stages, f"evaluate@{run}")
    text = outcomes_text(root, run)
    for path, md5 in merged.dependencies.items():
        if judged.dependencies.get(path, md5) != md5:
            raise CastawayError(
                f"{judged.address} is of another {path} than {merged.address}; run `dvc repro {judged.address}`"
            )
    mlflow = client()
    experiment = experiment_id(mlflow, root)
    evaluation = _run_of(mlflow, experiment, judged)
    # The champion of today is compared long after its folder in data/ was replaced.
    mlflow.log_text(evaluation, text, FILE)
    version = registered(mlflow, run, merged, _run_of(mlflow, experiment, merged), evaluation)
    # MLflow calls an unknown alias a wrong parameter.
    champion = unless_missing(partial(mlflow.get_model_version_by_alias, run, CHAMPION), "INVALID_PARAMETER_VALUE")
    if champion is not None and str(champion.version) == version:
        return True, f"{run}: version {version} is the champion: {champion.tags.get(GATE, 'it was before')}"
    seat = task_class(params.tasks[run].task).evaluation_seats[0]
    theirs = outcomes_of(mlflow, champion, run, seat) if champion is not None else None
    verdict = judge(params.tasks[run].gate, judged.figures[FINAL], read_outcomes(text, FINAL, seat), theirs)
    mlflow.set_model_version_tag(run, version, GATE, str(verdict))
    if verdict.passed:
        mlflow.set_registered_model_alias(run, CHAMPION, version)
    became = "is the champion" if verdict.passed else "is not the champion"
    return verdict.passed, f"{run}: version {version} {became}: {verdict}"


def outcomes_text(root: Path, run: str) -> str:
    """The outcomes of the final policy, one line each; CastawayError if they are not there."""
    path = outcomes_path(root, run)
    try:
        lines = path.read_text("utf-8").splitlines(keepends=True)
    except OSError:
        raise CastawayError(f"{path} is missing; `dvc checkout evaluate@{run}` restores it from the cache") from None
    return "".join(line for line in lines if json.loads(line).get("player") == FINAL)


def registered(mlflow: Any, run: str, merged: Locked, run_id: str, evaluation: str) -> str:
    """The version of a merged model, which is made if there is none with these weights."""
    if unless_missing(lambda: mlflow.get_registered_model(run)) is None:
        mlflow.create_registered_model(run, description=f"The merged models of the run {run}; weights in DVC.")
    md5 = merged.outs[merged.artifact]
    for version in mlflow.search_model_versions(f"name = '{run}'"):
        if version.tags.get(OUTPUT) == md5:
            mlflow.set_model_version_tag(run, version.version, EVALUATION, evaluation)
            return str(version.version)
    outputs = mlflow.get_run(run_id).outputs.model_outputs
    if len(outputs) != 1:
        raise CastawayError(
            f"the MLflow run {run_id} of {merged.address} has {len(outputs)} models, expected one; delete the run, and "
            "`python -m flows lineage sync` makes it again"
        )
    (model,) = outputs
    tags = {OUTPUT: md5, EVALUATION: evaluation, "dvc.rev": str(merged.record.get("revision", ""))}
    made = mlflow.create_model_version(run, f"models:/{model.model_id}", run_id, tags, model_id=model.model_id)
    return str(made.version)


def outcomes_of(mlflow: Any, champion: Any, run: str, seat: str) -> Mapping[int, bool]:
    """The outcomes of the champion's episodes, which are with the run of its evaluation."""
    if EVALUATION not in champion.tags:
        raise CastawayError(
            f"version {champion.version} of {run} is the champion, but its tag {EVALUATION}, the run of its "
            f"evaluation, is missing; set it, or take the alias {CHAMPION} away"
        )
    place = mlflow.download_artifacts(champion.tags[EVALUATION], FILE)
    return read_outcomes(Path(place).read_text("utf-8"), FINAL, seat)


def _recorded(stages: Mapping[str, Locked], address: str) -> Locked:
    if address not in stages or not stages[address].known:
        raise CastawayError(f"no record says what made {address}; run `dvc repro {address}`")
    return stages[address]


def _run_of(mlflow: Any, experiment: str, stage: Locked) -> str:
    recorded = existing(mlflow, experiment, stage)
    if recorded is None:
        raise CastawayError(f"MLflow has no run of {stage.address}; `python -m flows lineage sync` makes it again")
    return recorded


@dataclass(frozen=True)
class Verdict:
    refusals: tuple[str, ...]  # why it may not; empty if it may
    compared: str  # how it compares with the champion, in words; empty if there is none

    @property
    def passed(self) -> bool:
        return not self.refusals

    def __str__(self) -> str:
        return "; ".join(self.refusals) or self.compared or "there was no champion"


def judge(
    gate: GateParams, figures: Mapping[str, Any], own: Mapping[int, bool], champion: Mapping[int, bool] | None
) -> Verdict:
    """Hold a model's figures against the gate, and its successes by held-out id against the champion's."""
    refusals = []
    low, high = float(figures["success_rate_low"]), float(figures["invalid_rate_high"])
    if low < gate.success_rate:
        refusals += [f"success may be {percent(low)}, and gate.success_rate is {percent(gate.success_rate)}"]
    if high > gate.invalid_rate:
        refusals += [f"invalid replies may be {percent(high)}, and gate.invalid_rate is {percent(gate.invalid_rate)}"]
    difference, count = paired_difference(own, champion or {})
    if not count:
        if champion is not None:
            refusals.append("the champion was evaluated on other ids; build it again with this seed to compare the two")
        return Verdict(tuple(refusals), "")
    compared = (
        f"success {100 * difference.value:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f}) "
        f"beside the champion's on {count} ids"
    )
    if difference.low <= -gate.margin:
        refusals.append(f"{compared}, expected more than {0 - 100 * gate.margin:.1f} for certain")
    return Verdict(tuple(refusals), compared)


def paired_difference(one: Mapping[int, bool], other: Mapping[int, bool]) -> tuple[Interval, int]:
    """Success of `one` minus that of `other` on the episodes that both played, and the number of these episodes.

    With the 95 % interval of Bonett and Price (2012, "Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data"); f is the number of episodes that only one of the two won:

        p1 = (f_one + 1) / (n + 2),  p2 = (f_other + 1) / (n + 2)
        (p1 - p2) -+ z * sqrt((p1 + p2 - (p1 - p2)^2) / (n + 2))
    """
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return Interval(0.0, -1.0, 1.0), 0
    only_one = sum(one[task_id] and not other[task_id] for task_id in shared)
    only_other = sum(other[task_id] and not one[task_id] for task_id in shared)
    count = len(shared)
    first, second = (only_one + 1) / (count + 2), (only_other + 1) / (count + 2)
    centre = first - second
    half = Z95 * sqrt((first + second - centre * centre) / (count + 2))
    return Interval((only_one - only_other) / count, max(-1.0, centre - half), min(1.0, centre + half)), count
