"""Serves the teacher for the stages that use it: `python -m flows pipeline --teacher WEIGHTS`."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from castaway.config.errors import CastawayError
from castaway.config.key import secret
from castaway.config.sections import TeacherParams
from castaway.processes import hardware
from castaway.processes.groups import guarded, stopping
from castaway.processes.hardware import VISIBLE, seeing
from castaway.rollout.server import Server
from castaway.rollout.vllm import Serving
from castaway.tracking import dvc_stage
from flows.plan import must_run
from flows.steps import Step

SECTION = "teacher"  # the section of params.yaml that dvc.yaml lists for each stage that uses the teacher

_one = threading.Lock()  # the server has one port, so only one of the stages that use it can run at a time


@dataclass(frozen=True)
class Weights:
    model: str  # a folder, or the name of a Hugging Face model
    cache_gibibytes: int | None = None
    """Memory of the KV cache, in GiB; None for most of a GPU's, of which little is then left for a stage on it."""


@contextmanager
def serving_for(
    root: Path, address: str, weights: Weights, params: TeacherParams, visible: Mapping[str, str]
) -> Iterator[None]:
    """Context with the teacher on the `visible` GPUs at `teacher.url`, if the stage uses it and has to run."""
    serving = what_to_serve(root, weights, params)
    if not uses_teacher(root, address) or not must_run(root, address):
        yield
        return
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
    return Serving(
        weights.model,
        params.model,
        cache_gibibytes=weights.cache_gibibytes,
        host=place.hostname,
        port=place.port or 80,
        environment=root / ".venv-vllm",
        log=root / "scratch" / "teacher.log",
    )


def uses_teacher(root: Path, address: str) -> bool:
    return SECTION in dvc_stage.load(root, address).param_names


def on_gpus(root: Path, steps: Sequence[Step], devices: Sequence[hardware.Device]) -> list[Step]:
    """The steps, those on the CPU that use the teacher on a GPU of this host: vLLM needs one for itself."""
    if not devices or devices[0].kind not in VISIBLE:
        return list(steps)
    moved = {step.address for step in steps if step.device == "cpu" and uses_teacher(root, step.address)}
    return [replace(step, device=devices[0].kind) if step.address in moved else step for step in steps]
