"""The driver: plans a build, and has DVC run or restore one stage after another, within a flow run of Prefect.

    python -m flows pipeline                      every stage of every run in params.yaml
    python -m flows pipeline ppo@marooned         one stage and the stages that it needs
    python -m flows pipeline --teacher WEIGHTS    serve the teacher with vLLM for the stages that use it

Independent stages run in parallel, as many as cores and memory allow, and each GPU is used by one stage at a time. The
stage with the longest path to the end starts first; each writes its output to scratch/logs. DVC is the only cache, and
every stage ends as "Ran" or "Cached", or the exit status is not 0. A build in which nothing has to run imports neither
Prefect nor MLflow. Losing either of them changes nothing that is built.
"""

from __future__ import annotations

from collections.abc import Sequence

from castaway.config.errors import CastawayError
from castaway.processes import environment
from castaway.processes.groups import interruptible
from castaway.tools.summary import next_commands, summary
from flows import prefect_server
from flows.planned import Build
from flows.preload import preloaded
from flows.steps import Outcome
from flows.teacher import Weights


def main(targets: Sequence[str], *, force: bool, teacher: Weights | None = None) -> int:
    """Build the targets, and show what came of it; CastawayError if a stage failed. Returns the exit status, 0."""
    root = environment.find_root()
    with interruptible():
        with environment.importing():  # DVC, which makes an index of the pipeline
            build = Build.planned(root, targets, force=force, teacher=teacher)
        outcomes = run_build(build)
    print(f"\n{summary(root, build.params, outcomes, list(next_commands(build.params)))}")
    require_built(outcomes)
    return 0


def run_build(build: Build) -> list[Outcome]:
    """Run a build as a flow run of Prefect, or without one if nothing has to run or there is no server."""
    with build.alone():
        if build.idle:
            return build.run()
        with preloaded(build.root, build.params) as build.variables, prefect_server.for_build(build.root) as there:
            if not there:
                return build.run()
            from flows.pipeline import run_in_flow  # imports Prefect

            return run_in_flow(build)


def require_built(outcomes: Sequence[Outcome]) -> None:
    failed = [outcome.message for outcome in outcomes if outcome.state == "Failed"]
    if not all(outcome.built for outcome in outcomes):
        raise CastawayError("; ".join(failed) or "not every stage was built")
