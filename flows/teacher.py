"""Serves the teacher for the stages that use it: `teacher.weights`, or `python -m flows pipeline --teacher WEIGHTS`.

A judge that this pipeline trains (`teacher.adapter`) is built before a stage asks it. DVC does not know of that: what a
judge has taught is not out of date after the judge has changed, unless `teacher.model` is another name.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from castaway.config.errors import CastawayError
from castaway.config.key import secret
from castaway.config.sections import TeacherParams
from castaway.processes import hardware
from castaway.processes.groups import guarded, stopping
from castaway.processes.hardware import VISIBLE, seeing
from castaway.rollout.server import Server
from castaway.rollout.vllm import Serving, read_adapter
from castaway.tasks.registry import read_params
from castaway.tracking import dvc_stage
from flows.plan import must_run, plan
from flows.steps import Step

SECTION = "teacher"  # the section of params.yaml that dvc.yaml lists for each stage that uses the teacher
BASE_NAME = "base"  # the name of the weights without their adapter, on a server of both

_one = threading.Lock()  # the server has one port, so only one of the stages that use it can run at a time


@dataclass(frozen=True)
class Weights:
    model: str  # a folder, or the name of a Hugging Face model
    cache_gibibytes: int | None = None
    """Memory of the KV cache, in GiB; None for most of a GPU's, of which little is then left for a stage on it."""
    adapter: str = ""
    """The folder of a LoRA adapter, which is then the teacher; empty for none."""


def weights_of(params: TeacherParams) -> Weights | None:
    """What params.yaml names; None if that is nothing."""
    return Weights(params.weights, adapter=params.adapter) if params.kind != "rules" and params.weights else None


@contextmanager
def serving_for(
    root: Path, address: str, weights: Weights, params: TeacherParams, visible: Mapping[str, str]
) -> Iterator[None]:
    """Context with the teacher on the `visible` GPUs at `teacher.url`, if the stage uses it and has to run."""
    serving = what_to_serve(root, weights, params)
    if not uses_teacher(root, address) or not must_run(root, address):
        yield
        return
    if weights.adapter:
        adapter = read_adapter(f"{params.model}={root / weights.adapter}")
        serving = replace(serving, model=BASE_NAME, adapters=(adapter,))
    with _one, ExitStack() as stack:
        print(f"starting vLLM for {address}; its log is {serving.log.relative_to(root)}", flush=True)
        with seeing(visible):
            server = Server(serving, secret())
        stack.callback(server.stop)
        # Before it is ready, which takes minutes: a driver that is killed meanwhile takes it along.
        stack.enter_context(guarded(server.process.pid))
        server.wait_until_ready(stopping)
        yield


def what_to_serve(root: Path, weights: Weights, params: TeacherParams) -> Serving:
    if params.kind == "rules":
        raise CastawayError("teacher.kind is rules, which needs no server; set it to openai, or leave --teacher out")
    place = urlsplit(params.url)
    if place.scheme != "http" or place.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise CastawayError(f"teacher.url is {params.url}, which is not this host; start the server there by hand")
    folder = root / weights.model
    return Serving(
        str(folder) if folder.is_dir() else weights.model,
        params.model,
        cache_gibibytes=weights.cache_gibibytes,
        host=place.hostname,
        port=place.port or 80,
        environment=root / ".venv-vllm",
        log=root / "scratch" / "teacher.log",
    )


def uses_teacher(root: Path, address: str) -> bool:
    stage, _, run = address.partition("@")
    if stage == "dataset" and not read_params(root / "params.yaml").for_run(run).dataset.written:
        return False
    return SECTION in dvc_stage.load(root, address).param_names


def plan_with(root: Path, targets: Sequence[str], adapter: str, repo: Any = None) -> list[Step]:
    """As `plan`, with the stage that makes the adapter before all that use the teacher.

    What is made of the adapter itself is left out, unless it is a target: PPO has no use for a judge's answers.
    """
    every = plan(root, [], repo)
    maker = next((step.address for step in every if adapter in step.outs), None)
    if maker is None:
        return plan(root, targets, repo)
    first = plan(root, [maker], repo)
    before, after = {step.address for step in first}, {maker}
    for step in every:
        if after.intersection(step.upstream):
            after.add(step.address)
    chosen = targets or [step.address for step in every if step.address not in before | after]
    others = [step for step in plan(root, chosen, repo) if step.address not in before]
    asking = {step.address for step in others if uses_teacher(root, step.address)}
    if not asking:
        return plan(root, targets, repo)
    return [
        *first,
        *(replace(one, upstream=(*one.upstream, maker)) if one.address in asking else one for one in others),
    ]


def on_gpus(root: Path, steps: Sequence[Step], devices: Sequence[hardware.Device]) -> list[Step]:
    """The steps, those on the CPU that use the teacher on a GPU of this host: vLLM needs one for itself."""
    if not devices or devices[0].kind not in VISIBLE:
        return list(steps)
    moved = {step.address for step in steps if step.device == "cpu" and uses_teacher(root, step.address)}
    return [replace(step, device=devices[0].kind) if step.address in moved else step for step in steps]
