"""A build: the stages that it consists of, in their order, and how each is built here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from castaway.config.params import Params
from castaway.processes import environment, hardware
from castaway.processes.hardware import visible_variables
from castaway.processes.host_file import load_host
from castaway.tasks.registry import read_params
from castaway.tools.plugins import link
from castaway.tracking.dvc_stage import unchanging
from castaway.tracking.records import recorded
from castaway.tracking.registry import after_build
from flows import gpus, pipeline_run
from flows.build import cached, run_step
from flows.display import Display
from flows.locks import driver_lock
from flows.logs import new_log
from flows.pipeline_run import PipelineRun
from flows.plan import repo_of, require_devices, unchanged
from flows.remote import build_remotely, sent
from flows.scheduler import Memory, Watcher, count_gpus, schedule
from flows.steps import POOL, Outcome, Step
from flows.teacher import Weights, on_gpus, plan_with, serving_for, weights_of, what_to_serve


class Engine(Watcher, Protocol):
    """Prefect, where a build runs in it: `flows.pipeline.PrefectBuild`."""

    def build(self, step: Step, build: Callable[[], Outcome], *, asks_dvc: bool) -> Outcome: ...

    def finish(self, outcomes: Sequence[Outcome], results: str) -> None: ...


@dataclass
class Build:
    """One build of a clone, checked and planned, not yet begun."""

    root: Path
    params: Params
    targets: Sequence[str]
    force: bool
    teacher: Weights | None
    steps: list[Step]
    same: frozenset[str]  # the addresses of the steps that need not run
    variables: dict[str, str] = field(default_factory=dict)  # for the environment of the stages

    @classmethod
    def planned(cls, root: Path, targets: Sequence[str], *, force: bool, teacher: Weights | None) -> Build:
        """Plan the build of the targets, or of all stages.

        With `force` every stage runs, even if nothing changed; a `teacher`, or else the one that params.yaml names, is
        served to the stages that use one.
        CastawayError if the targets or files are invalid, or this host lacks a device.
        """
        params = read_params(root / "params.yaml")
        environment.use_host(root)
        link(root, params)
        if served := teacher or weights_of(params.teacher):
            # Only to fail at once, and not hours later at the first stage that uses the teacher.
            what_to_serve(root, served, params.teacher)
        repo = repo_of(root)
        with unchanging(repo):
            steps = sent(plan_with(root, targets, served.adapter if served else "", repo), load_host(root))
            require_devices(root, steps, force=force)
            if served:
                steps = on_gpus(root, steps, hardware.visible_devices())
            same = frozenset() if force else unchanged(root, steps, repo)
        return cls(root, params, targets, force, teacher, steps, same)

    @property
    def idle(self) -> bool:
        return self.same.issuperset(step.address for step in self.steps)

    @contextmanager
    def alone(self) -> Iterator[None]:
        with driver_lock(self.root) as waited:
            if waited and not self.force:  # the other one may have built the steps
                self.same = unchanged(self.root, self.steps)
            yield

    def run(self, in_prefect: Engine | None = None) -> list[Outcome]:
        """Build the steps, shown on the screen, in MLflow and in Prefect; the caller holds the lock, see `alone`."""
        with Display(self.root, len(self.steps)) as display:
            parent = nullcontext() if self.idle else PipelineRun(self.root, self.targets, self.params, self.steps)
            with parent as shown:
                watchers: list[Watcher] = [display, *([in_prefect] if in_prefect else [])]
                addresses = [step.address for step in self.steps]
                outcomes = schedule(
                    self.steps,
                    self._builder({**self.variables, **(shown.variables if shown else {})}, in_prefect),
                    max(1, hardware.cores() // self.params.threads),
                    count_gpus(self.steps),
                    seconds=recorded(self.root, addresses, "seconds"),
                    memory=Memory(hardware.free_gibibytes(), recorded(self.root, addresses, "peak_memory_gib")),
                    watchers=watchers,
                )
                results = pipeline_run.results_of(self.root, outcomes) if shown or in_prefect else ""
                if shown:
                    shown.finish(outcomes, results)
                if in_prefect:
                    in_prefect.finish(outcomes, results)
        after_build(self.root, self.params, [one.step.address for one in outcomes if one.state == "Ran"])
        return outcomes

    def _builder(
        self, variables: dict[str, str], in_prefect: Engine | None
    ) -> Callable[[Step, Sequence[int]], Outcome]:
        """A function that builds a step in its places, which the scheduler calls in a thread for each."""

        def build(step: Step, places: Sequence[int]) -> Outcome:
            if step.address in self.same:
                return cached(self.root, step)
            if step.device.startswith(POOL):
                return build_remotely(self.root, step, force=self.force, log=new_log(self.root, step.address))
            return self._build_here(step, places, variables, in_slots=in_prefect is not None)

        if in_prefect is None:
            return build
        return lambda step, places: in_prefect.build(
            step, lambda: build(step, places), asks_dvc=step.address not in self.same
        )

    def _build_here(self, step: Step, places: Sequence[int], variables: dict[str, str], *, in_slots: bool) -> Outcome:
        on_gpu = step.device != "cpu"
        visible = visible_variables(step.device, places) if on_gpu and count_gpus(self.steps) > 1 else {}
        weights, teacher = self.teacher or weights_of(self.params.teacher), self.params.teacher
        served = serving_for(self.root, step.address, weights, teacher, visible) if weights else nullcontext()
        slot = gpus.occupy(step.device, places, step.address) if on_gpu and in_slots else nullcontext()
        log = new_log(self.root, step.address)  # while the stage waits, its last run is not shown
        with slot, served:
            return run_step(self.root, step, {**visible, **variables}, force=self.force, log=log)
