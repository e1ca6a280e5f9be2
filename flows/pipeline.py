"""The flows and the task that Prefect runs: `pipeline`, in it a task for each stage, and in that a flow of its kind.

    pipeline                       targets and force, typed in Prefect's page or given to `python -m flows pipeline`
      stage_task  sft@marooned     its state is Ran, Cached, Failed or Skipped, with the reason
        stage_flow                 under the name of the kind, `sft`: DVC at work, and the lines of its log

Prefect is imported with this module, so only a build that reports to a server imports it.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prefect import allow_failure, flow, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.logging.loggers import flow_run_logger
from prefect.states import Cancelled, Completed, Failed

from castaway.config.errors import CastawayError
from castaway.processes import environment
from castaway.processes.groups import interruptible, stopping
from flows import prefect_server, remote
from flows.locks import driver_lock
from flows.logs import Tail, log_path, new_log
from flows.planned import Build
from flows.prefect_server import Once
from flows.steps import Outcome, Step
from flows.teacher import Weights

CANCEL_SECONDS = 3.0  # time between two questions whether the flow run was cancelled in Prefect's page
LINES_SECONDS = 2.0  # time between two reports of a stage's new lines
PROGRESS_EVERY = 15
"""One in this many reports also shows the state of a line that has not ended, such as a progress bar."""

_work: ContextVar[Callable[[], State[Any]]] = ContextVar("_work")
"""What the flow of a stage does: a flow's parameters are shown in the page, so they can hold no function."""


@task(name="stage", task_run_name="{address}", cache_policy=NO_CACHE, persist_result=False)
def stage_task(address: str, work: Callable[[], State[Any]]) -> State[Any]:
    """One stage of a build: its state says what came of it, and why."""
    return work()


@flow(name="stage", flow_run_name="{address}", persist_result=False)
def stage_flow(address: str) -> State[Any]:
    """DVC runs or restores one stage; its lines are those of the run's log."""
    return _work.get()()


_planned: ContextVar[Once[list[Outcome]] | None] = ContextVar("_planned", default=None)
"""The build that the driver has planned; a flow run that was started in Prefect's page plans its own."""


def run_name() -> str:
    return " ".join(runtime.flow_run.parameters.get("targets") or ["everything"])


@flow(name="pipeline", flow_run_name=run_name, persist_result=False)
def pipeline(targets: list[str] | None = None, force: bool = False, teacher: str | None = None) -> State[Any]:
    """Build stages of this clone, and what they need; DVC decides which of them must run.

    Args:
        targets: stages, such as `sft@strictbot`; none stands for all.
        force: run them even if nothing changed.
        teacher: weights to serve as the teacher with vLLM; none serves nothing.
    """
    with interruptible():
        once = _planned.get()
        if once is None:
            weights = Weights(teacher) if teacher else None
            build = Build.planned(environment.find_root(), targets or [], force=force, teacher=weights)
            once = Once(lambda: _run_alone(build))
        try:
            outcomes = once()
        except KeyboardInterrupt:
            return Cancelled(message="stopped")
    return state_of_build(outcomes)


@flow(name=remote.FLOW, flow_run_name="{target}", persist_result=False)
def one_stage(
    target: str, force: bool = False, commit: str | None = None, files: dict[str, str] | None = None
) -> State[Any]:
    """Build one stage from its inputs as they are; on a worker of a pool from those of a commit.

    Args:
        target: the stage, such as `sft@strictbot`.
        force: run it even if nothing changed.
        commit: bring the clone to this commit, pull the inputs from DVC's remote, and push what is made.
        files: with a commit, other content of its params.yaml and dvc.lock.
    """
    environment.prepare()  # a worker of Prefect's begins here
    root = environment.find_root()
    environment.use_host(root)
    with interruptible(), driver_lock(root), _lines(log := new_log(root, target)):
        try:
            return state_of(remote.carry_out(root, target, commit or "", files or {}, force=force, log=log))
        except KeyboardInterrupt:
            return Cancelled(message="stopped")
        except CastawayError as error:
            return Failed(message=str(error))


def run_in_flow(build: Build) -> list[Outcome]:
    """Run a planned build as a flow run, exactly once, whatever becomes of Prefect."""
    once = Once(lambda: _run(build))
    token = _planned.set(once)
    teacher = build.teacher.model if build.teacher else None
    try:
        return once.through(lambda: pipeline(list(build.targets), build.force, teacher, return_state=True))
    finally:
        _planned.reset(token)


def _run(build: Build) -> list[Outcome]:
    if not runtime.flow_run.id:  # the engine could not begin a flow run
        return build.run()
    shown = PrefectBuild(build.root)
    with shown.cancellable(runtime.flow_run.id):
        return build.run(shown)


def _run_alone(build: Build) -> list[Outcome]:
    with build.alone():
        return _run(build)


def run_stage_in_flow(address: str, run: Callable[[], None]) -> None:
    """Run a stage that `dvc repro` has started as a flow run on the user's server; `run` is called exactly once."""
    once = Once(run)

    def work() -> State[Any]:
        once()
        return Completed(name="Ran", message="by dvc repro")

    _through_flow(address, once, work)


def _through_flow(address: str, once: Once[Any], work: Callable[[], State[Any]]) -> None:
    """Have a flow run of the stage's kind do the work, which is to call `once`."""
    token = _work.set(work)
    try:
        once.through(lambda: stage_flow.with_options(name=address.partition("@")[0])(address, return_state=True))
    finally:
        _work.reset(token)


def state_of_build(outcomes: Sequence[Outcome]) -> State[Any]:
    count = Counter(outcome.state for outcome in outcomes)
    told = ", ".join(f"{count[name]} {name.lower()}" for name in ("Ran", "Cached", "Failed", "Skipped") if count[name])
    failed = [outcome.message for outcome in outcomes if outcome.state == "Failed"]
    return Failed(message="; ".join([told, *failed])) if failed else Completed(message=told)


class PrefectBuild:
    """The build within the engine of Prefect: its task runs, its artifacts, and the end of a cancelled one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._states: dict[str, Any] = {}

    def build(self, step: Step, build: Callable[[], Outcome], *, asks_dvc: bool) -> Outcome:
        """Build a step within a task run, which is shown below its upstream ones, and within a flow run of its kind.

        `build` is called exactly once, whatever becomes of Prefect. What is known to be unchanged or skipped, and so
        does not ask DVC, has no flow run.
        """
        once = Once(build)

        def with_lines() -> State[Any]:
            with _lines(log_path(self._root, step.address)):
                return state_of(once())

        def in_flow() -> State[Any]:
            _through_flow(step.address, once, with_lines)
            return state_of(once.result)

        def engine() -> None:
            work = in_flow if asks_dvc else lambda: state_of(once())
            needs = [allow_failure(self._states[name]) for name in step.upstream if name in self._states]
            self._states[step.address] = stage_task(step.address, work, wait_for=needs, return_state=True)

        return once.through(engine)

    def started(self, step: Step) -> None:
        """The task run of the step begins by itself."""

    def ended(self, outcome: Outcome) -> None:
        """Show a step that was skipped; others have shown themselves."""
        if outcome.state == "Skipped":
            self.build(outcome.step, lambda: outcome, asks_dvc=False)

    def finish(self, outcomes: Sequence[Outcome], results: str) -> None:
        """Save the table of the stages, and the results as Markdown, as artifacts of the flow run."""
        try:
            create_table_artifact([outcome.row() for outcome in outcomes], "stages", "What ran, and why")
            if results:
                create_markdown_artifact(results, "results", "Success on held-out episodes")
        except Exception as error:
            prefect_server.warn(error)

    @contextmanager
    def cancellable(self, flow_run_id: Any) -> Iterator[None]:
        """Context in which Cancel in Prefect's page stops the build as Ctrl-C does."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(CANCEL_SECONDS):
                try:
                    with get_client(sync_client=True) as client:
                        state = client.read_flow_run(flow_run_id).state
                except Exception:  # the server is away, or busy
                    continue
                if state is not None and state.type.value in ("CANCELLING", "CANCELLED"):
                    os.kill(os.getpid(), signal.SIGINT)
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            over.set()


def state_of(outcome: Outcome) -> State[Any]:
    """The outcome of a step as a state of Prefect, under the same name."""
    if outcome.state == "Failed" and stopping():
        return Cancelled(message="stopped")
    if outcome.state == "Skipped":
        return Cancelled(name="Skipped", message=outcome.message)
    kind = Failed if outcome.state == "Failed" else Completed
    return kind(name=outcome.state, message=outcome.message or outcome.state)


@contextmanager
def _lines(log: Path) -> Iterator[None]:
    """Context in which new lines of a log are those of the flow run, and not of the task that it runs in."""
    run: Any = FlowRunContext.get()
    logger, tail, over = flow_run_logger(run.flow_run, run.flow), Tail(log), threading.Event()

    def follow() -> None:
        count = 0
        while not over.wait(LINES_SECONDS):
            count += 1
            send(unfinished=count % PROGRESS_EVERY == 0)

    def send(*, unfinished: bool) -> None:
        for line in tail.lines(unfinished=unfinished):
            logger.info(line)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        send(unfinished=True)
