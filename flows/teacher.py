"""Serves the teacher for the stages that use it: `python -m flows pipeline --teacher WEIGHTS`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from castaway.config.sections import TeacherParams
from castaway.errors import CastawayError
from castaway.serving.server import running
from castaway.serving.vllm import Serving
from castaway.teacher.key import secret
from castaway.tools import hardware
from flows import declared
from flows.lifeline import guarded
from flows.process import stopping
from flows.ready import must_run
from flows.report import Step
from flows.slots import VISIBLE

SECTION = "teacher"
"""The section of params.yaml that dvc.yaml lists for each stage that uses the teacher."""

_one = threading.Lock()
"""The server has one port, so only one of the stages that use it can run at a time."""


@contextmanager
def serving_for(
    root: Path, address: str, weights: str, params: TeacherParams, visible: Mapping[str, str]
) -> Iterator[None]:
    """Context in which the teacher is served at `teacher.url`, if the stage uses it and has to run.

    Args:
        root: the root of the repository.
        address: the stage.
        weights: what to serve.
        params: where the stages expect it.
        visible: the variable that makes only the stage's GPU visible; empty for all.

    Raises:
        CastawayError: params.yaml names no teacher that can be served on this host, or vLLM does not start.
    """
    serving = what_to_serve(root, weights, params)
    if not uses_teacher(root, address) or not must_run(root, address):
        yield
        return
    with _one, ExitStack() as stack:
        print(f"starting vLLM for {address}; its log is {serving.log.relative_to(root)}", flush=True)
        # The server gets the environment of this process. A stage on a GPU that starts meanwhile sets its own.
        before = {name: os.environ.get(name) for name in visible}
        os.environ.update(visible)
        try:
            server = stack.enter_context(running(serving, secret(), stopping))
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        stack.enter_context(guarded(server.process.pid))
        yield


def what_to_serve(root: Path, weights: str, params: TeacherParams) -> Serving:
    """The server that the stages expect, from `teacher` in params.yaml.

    Raises:
        CastawayError: they use the rules instead of a server, or a server on another host.
    """
    if params.kind == "rules":
        raise CastawayError("teacher.kind is rules, which needs no server; set it to openai, or leave --teacher out")
    place = urlsplit(params.url)
    if place.scheme != "http" or place.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise CastawayError(f"teacher.url is {params.url}, which is not this host; start the server there by hand")
    return Serving(
        weights,
        params.model,
        host=place.hostname,
        port=place.port or 80,
        environment=root / ".venv-vllm",
        log=root / "scratch" / "teacher.log",
    )


def uses_teacher(root: Path, address: str) -> bool:
    """Whether the stage depends on the teacher."""
    return SECTION in declared.load(root, address).param_names


def on_gpus(root: Path, steps: Sequence[Step], devices: Sequence[hardware.Device]) -> list[Step]:
    """The steps, those on the CPU that use the teacher on a GPU of this host: vLLM needs one for itself."""
    if not devices or devices[0].kind not in VISIBLE:
        return list(steps)
    kind = devices[0].kind
    return [
        replace(step, device=kind) if step.device == "cpu" and uses_teacher(root, step.address) else step
        for step in steps
    ]
