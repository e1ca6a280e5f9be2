"""Registers the merged model of a run in MLflow, and makes it the champion if the run's gate lets it.

    python -m flows promote              every run that is built
    python -m flows promote marooned     one run

The driver does so at the end of a build; it can be repeated. The registered model has the name of the run, and each
merged model is one version of it: without a copy of the weights, which are in DVC's cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.config.params import Params
from castaway.datasets.outcomes import FILE, outcomes_path, read_outcomes
from castaway.errors import CastawayError
from castaway.metrics.gate import Verdict, judge
from castaway.metrics.policies import POLICIES
from castaway.tasks.registry import read_params, task_class
from castaway.tools.lineage.locked import Locked, locked_stages
from flows import environment
from flows.lineage import existing
from flows.report import Outcome
from flows.store import client, experiment_id, is_missing, needed, one_line

CHAMPION = "champion"
"""The alias of the best model of a run."""
FINAL = POLICIES[-1]
MODEL, JUDGED = "merge", "evaluate"
"""The stages that make the model and judge it."""
OUTPUT = "dvc.out"
"""Tag of a version: the hash of the merged model, by which it is known again."""
EVALUATION = "castaway.evaluation"
"""Tag of a version: the MLflow run of its evaluation, which has the outcomes of its episodes."""
GATE = "castaway.gate"
"""Tag of a version: what the gate said."""


@dataclass(frozen=True)
class Promotion:
    """What became of the model of a run."""

    run: str
    version: str
    champion: bool
    """Whether it is the champion now."""
    reason: str

    def __str__(self) -> str:
        became = "is the champion" if self.champion else "is not the champion"
        return f"{self.run}: version {self.version} {became}: {self.reason}"


def main(targets: Sequence[str]) -> int:
    """Register the models of the runs, and print what became of each.

    Returns:
        0 if each is the champion of its run, else 1.

    Raises:
        CastawayError: there is no such run, its model or its evaluation is missing, or the store cannot be used.
    """
    root = environment.find_root()
    params = read_params(root / "params.yaml")
    stages = locked_stages(root)
    for run in targets:
        if run not in params.tasks:
            raise CastawayError(f"params.yaml has no run {run}; it has {', '.join(params.tasks)}")
    environment.silence(root)
    with needed():
        found = [promote(root, params, stages, run) for run in targets or built(stages, params)]
    print("\n".join(map(str, found)) or "no run has both a merged model and an evaluation yet; `dvc repro` builds them")
    return int(not all(one.champion for one in found))


def after_build(root: Path, params: Params, outcomes: Iterable[Outcome]) -> None:
    """Register what a build has made. A failure of MLflow is a warning: what was built is worth more."""
    made = {outcome.step.address for outcome in outcomes if outcome.state == "Ran"}
    runs = [run for run in params.tasks if made & {f"{MODEL}@{run}", f"{JUDGED}@{run}"}]
    for run in runs:
        try:
            stages = locked_stages(root)
            if run in built(stages, params):
                print(promote(root, params, stages, run))
        except Exception as error:  # whatever MLflow raises
            print(f"warning: MLflow could not register the model of {run}: {one_line(error)}", file=sys.stderr)


def built(stages: Mapping[str, Locked], params: Params) -> list[str]:
    """The runs with a merged model and an evaluation that are recorded."""
    return [
        run
        for run in params.tasks
        if all(f"{name}@{run}" in stages and stages[f"{name}@{run}"].known for name in (MODEL, JUDGED))
    ]


def promote(root: Path, params: Params, stages: Mapping[str, Locked], run: str) -> Promotion:
    """Register the model of a run, judge it, and move the alias if it passes.

    Raises:
        CastawayError: the model or its evaluation is missing, or they are of different weights.
    """
    merged, judged = _recorded(stages, f"{MODEL}@{run}"), _recorded(stages, f"{JUDGED}@{run}")
    text = outcomes_text(root, run)
    require_same_weights(merged, judged)
    mlflow = client()
    experiment = experiment_id(mlflow, root)
    evaluation = _run_of(mlflow, experiment, judged)
    # The champion of today is compared long after its folder in data/ was replaced.
    mlflow.log_text(evaluation, text, FILE)
    version = registered(mlflow, run, merged, _run_of(mlflow, experiment, merged), evaluation)
    champion = champion_of(mlflow, run)
    if champion is not None and str(champion.version) == version:
        return Promotion(run, version, True, champion.tags.get(GATE, "it was before"))
    seat = task_class(params.tasks[run].task).evaluation_seats[0]
    verdict = _judge(mlflow, root, params, run, read_outcomes(text, FINAL, seat), champion, seat)
    mlflow.set_model_version_tag(run, version, GATE, str(verdict))
    if verdict.passed:
        mlflow.set_registered_model_alias(run, CHAMPION, version)
    return Promotion(run, version, verdict.passed, str(verdict))


def outcomes_text(root: Path, run: str) -> str:
    """The outcomes of the final policy, one line each.

    Raises:
        CastawayError: they are not there.
    """
    path = outcomes_path(root, run)
    try:
        lines = path.read_text("utf-8").splitlines(keepends=True)
    except OSError:
        raise CastawayError(f"{path} is missing; `dvc checkout {JUDGED}@{run}` restores it from the cache") from None
    return "".join(line for line in lines if json.loads(line).get("player") == FINAL)


def require_same_weights(merged: Locked, judged: Locked) -> None:
    """Check that the evaluation is of the weights that were merged.

    Raises:
        CastawayError: it is not.
    """
    other = [path for path, md5 in merged.dependencies.items() if judged.dependencies.get(path, md5) != md5]
    if other:
        raise CastawayError(
            f"{judged.address} is of another {other[0]} than {merged.address}; run `dvc repro {judged.address}`"
        )


def registered(mlflow: Any, run: str, merged: Locked, run_id: str, evaluation: str) -> str:
    """The version of a merged model, which is made if there is none with these weights."""
    from mlflow.exceptions import MlflowException

    try:
        mlflow.get_registered_model(run)
    except MlflowException as error:
        if not is_missing(error):
            raise
        mlflow.create_registered_model(run, description=f"The merged models of the run {run}; weights in DVC.")
    md5 = merged.outs[merged.artifact]
    for version in mlflow.search_model_versions(f"name = '{run}'"):
        if version.tags.get(OUTPUT) == md5:
            mlflow.set_model_version_tag(run, version.version, EVALUATION, evaluation)
            return str(version.version)
    found = mlflow.get_run(run_id).outputs.model_outputs
    if len(found) != 1:
        raise CastawayError(
            f"the MLflow run {run_id} of {merged.address} has {len(found)} models, expected one; delete the run, and "
            "`python -m flows lineage sync` makes it again"
        )
    (model,) = found
    tags = {OUTPUT: md5, EVALUATION: evaluation, "dvc.rev": str(merged.record.get("revision", ""))}
    made = mlflow.create_model_version(run, f"models:/{model.model_id}", run_id, tags, model_id=model.model_id)
    return str(made.version)


def champion_of(mlflow: Any, run: str) -> Any:
    """The version that is the champion; None if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return mlflow.get_model_version_by_alias(run, CHAMPION)
    except MlflowException as error:
        # MLflow calls an unknown alias a wrong parameter.
        if is_missing(error) or error.error_code == "INVALID_PARAMETER_VALUE":
            return None
        raise


def _judge(
    mlflow: Any, root: Path, params: Params, run: str, own: Mapping[int, bool], champion: Any, seat: str
) -> Verdict:
    figures = json.loads((root / "data" / run / "metrics" / f"{JUDGED}.json").read_text("utf-8"))[FINAL]
    theirs = None
    if champion is not None:
        if EVALUATION not in champion.tags:
            raise CastawayError(
                f"version {champion.version} of {run} is the champion, but its tag {EVALUATION}, the run of its "
                f"evaluation, is missing; set it, or take the alias {CHAMPION} away"
            )
        place = mlflow.download_artifacts(champion.tags[EVALUATION], FILE)
        theirs = read_outcomes(Path(place).read_text("utf-8"), FINAL, seat)
    return judge(params.tasks[run].gate, figures, own, theirs)


def _recorded(stages: Mapping[str, Locked], address: str) -> Locked:
    if address not in stages or not stages[address].known:
        raise CastawayError(f"no record says what made {address}; run `dvc repro {address}`")
    return stages[address]


def _run_of(mlflow: Any, experiment: str, stage: Locked) -> str:
    found = existing(mlflow, experiment, stage)
    if found is None:
        raise CastawayError(f"MLflow has no run of {stage.address}; `python -m flows lineage sync` makes it again")
    return found
