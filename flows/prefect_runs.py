"""Shows runs on a Prefect server: the pipeline as a flow run with a task run per stage, a stage as a flow run below.

The server only hears what happened. It decides nothing but this: a pipeline that is cancelled in its web page is
stopped as by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from logging import INFO
from pathlib import Path
from typing import Any
from uuid import UUID

from flows import alive
from flows.prefect_server import Reports
from flows.report import Outcome, Step
from flows.tail import Tail

TASK = "CASTAWAY_PREFECT_TASK"
"""Environment variable that gives a stage the id of its task run."""
INTERVAL = 5.0
"""Time between two questions whether the run was cancelled, and between two reports of new lines, in seconds."""
PROGRESS_EVERY = 12
"""Every so many reports also show the state of a line that has not ended, such as a progress bar."""


class FlowRun:
    """One run of a flow; a watcher of its steps. `with` begins and ends it."""

    def __init__(
        self,
        flow: str,
        name: str,
        tags: Sequence[str] = (),
        steps: Sequence[Step] = (),
        log: Callable[[str], Path] | None = None,
    ) -> None:
        """Prepare the run.

        Args:
            flow: the name of the flow.
            name: the name of the run.
            tags: of the run.
            steps: one task run each, dependencies first; with steps, the run can be cancelled in Prefect's web page.
            log: path of a step's log, by address; its lines are shown with the step.
        """
        self._log = log
        self._tails: dict[str, Tail] = {}
        self._flow = flow
        self._name = name
        self._tags = list(tags)
        self._steps = steps
        self._id: UUID | None = None
        self._tasks: dict[str, UUID] = {}
        self._open: set[str] = set()
        self._failed: list[str] = []
        self._reports = Reports()
        self._over = threading.Event()

    def __enter__(self) -> FlowRun:
        self._reports.send(self._begin)
        if self._steps:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from prefect.states import Cancelled, Completed, Failed

        self._over.set()
        state: Any
        if kind is None:
            state = Failed(message="; ".join(self._failed)) if self._failed else Completed()
        else:
            state = Failed(message=str(error)) if issubclass(kind, Exception) else Cancelled(message="stopped")
        for address in sorted(self._open):
            self._set_task(address, Cancelled(message="stopped"))
        self._reports.send(lambda client: client.set_flow_run_state(self._id, state, force=True), now=True)

    def variables(self, step: Step) -> dict[str, str]:
        """Environment variables that show the stage's flow run below its task run."""
        return {TASK: str(self._tasks[step.address])} if step.address in self._tasks else {}

    def started(self, step: Step) -> None:
        """Show that a step has started."""
        from prefect.states import Running

        self._open.add(step.address)
        if self._log:
            self._tails[step.address] = Tail(self._log(step.address))
        self._set_task(step.address, Running())

    def ended(self, outcome: Outcome) -> None:
        """Show how a step has ended."""
        from prefect.states import Completed, Failed, Pending

        self._open.discard(outcome.step.address)
        self._send_lines(outcome.step.address, unfinished=True)
        self._tails.pop(outcome.step.address, None)
        if outcome.state == "Failed":
            self._failed.append(outcome.message)
        kinds = {"Failed": Failed, "Skipped": Pending}
        name = "NotReady" if outcome.state == "Skipped" else outcome.state
        state: Any = kinds.get(outcome.state, Completed)(name=name, message=outcome.message or outcome.state)
        self._set_task(outcome.step.address, state)

    def finish(self, outcomes: Sequence[Outcome], results: str = "") -> None:
        """Save the table of the stages, and the results as Markdown, as artifacts."""
        from prefect.client.schemas.actions import ArtifactCreate

        rows = json.dumps([outcome.row() for outcome in outcomes])

        def save(client: Any) -> None:
            client.create_artifact(ArtifactCreate(key="stages", type="table", data=rows, flow_run_id=self._id))
            if results:
                client.create_artifact(
                    ArtifactCreate(key="results", type="markdown", data=results, flow_run_id=self._id)
                )

        self._reports.send(save)

    def _begin(self, client: Any) -> None:
        """Create the run and its tasks; called again, it creates what is still missing."""
        from prefect import Flow, Task
        from prefect.client.schemas.objects import TaskRunResult
        from prefect.states import Running

        if self._id is None:
            close_left_open(client, self._flow)
            parent = os.environ.get(TASK)
            self._id = client.create_flow_run(
                Flow(_body, name=self._flow),
                name=self._name,
                parameters={"process": alive.mark()},
                tags=self._tags,
                parent_task_run_id=UUID(parent) if parent else None,
            ).id
        client.set_flow_run_state(self._id, Running())
        task = Task(_body, name="stage")
        for step in self._steps:
            if step.address not in self._tasks:
                needed = [TaskRunResult(id=self._tasks[name]) for name in step.upstream]
                self._tasks[step.address] = client.create_task_run(
                    task, self._id, step.address, name=step.address, task_inputs={"needs": needed}
                ).id

    def _set_task(self, address: str, state: Any) -> None:
        self._reports.send(lambda client: client.set_task_run_state(self._tasks[address], state, force=True))

    def _send_lines(self, address: str, *, unfinished: bool) -> None:
        """Show what a step has written to its log since the last time."""
        from prefect.client.schemas.actions import LogCreate

        tail = self._tails.get(address)
        lines = tail.lines(unfinished=unfinished) if tail else []
        if not lines:
            return
        at: Any = datetime.now(UTC)

        def send(client: Any) -> None:
            ids: Any = {"flow_run_id": self._id, "task_run_id": self._tasks[address]}
            client.create_logs([LogCreate(name=address, level=INFO, message=one, timestamp=at, **ids) for one in lines])

        self._reports.send(send)

    def _watch(self) -> None:
        count = 0
        while not self._over.wait(INTERVAL):
            count += 1
            self._reports.send(self._stop_if_cancelled)
            for address in tuple(self._tails):
                self._send_lines(address, unfinished=count % PROGRESS_EVERY == 0)

    def _stop_if_cancelled(self, client: Any) -> None:
        state = client.read_flow_run(self._id).state
        if state is not None and state.type.value in ("CANCELLING", "CANCELLED"):
            self._over.set()
            os.kill(os.getpid(), signal.SIGINT)


def _body() -> None:
    """Stands for the body of a flow or a task: only its name is shown."""


def close_left_open(client: Any, flow: str) -> None:
    """Mark the runs of a flow, and their tasks, as crashed if they are running and their process has ended."""
    from prefect.client.schemas.filters import FlowFilter, FlowRunFilter, TaskRunFilter
    from prefect.states import Crashed

    running: Any = {"type": {"any_": ["RUNNING", "PENDING"]}}
    named: Any = {"any_": [flow]}
    gone: Any = Crashed(message="its process was killed")
    for run in client.read_flow_runs(flow_filter=FlowFilter(name=named), flow_run_filter=FlowRunFilter(state=running)):
        if not alive.has_ended(str(run.parameters.get("process", ""))):
            continue
        one: Any = {"any_": [run.id]}
        tasks = client.read_task_runs(
            flow_run_filter=FlowRunFilter(id=one), task_run_filter=TaskRunFilter(state=running)
        )
        for task in tasks:
            client.set_task_run_state(task.id, gone, force=True)
        client.set_flow_run_state(run.id, gone, force=True)
