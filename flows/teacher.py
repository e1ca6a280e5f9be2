"""Serves the teacher for the stages that use it: `python -m flows pipeline --teacher WEIGHTS`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from castaway.config.sections import TeacherParams
from castaway.errors import CastawayError
from castaway.serving.server import running
from castaway.serving.vllm import Serving
from castaway.teacher.key import secret
from flows import declared
from flows.lineage import locked_stages
from flows.process import stopping

SECTION = "teacher"
"""The section of params.yaml that dvc.yaml lists for each stage that uses the teacher."""

_one = threading.Lock()
"""The server has one port, so only one of the stages that use it can run at a time."""


@contextmanager
def serving_for(root: Path, address: str, weights: str, params: TeacherParams) -> Iterator[None]:
    """Context in which the teacher is served at `teacher.url`, if the stage uses it and has to run.

    Raises:
        CastawayError: params.yaml names no teacher that can be served on this host, or vLLM does not start.
    """
    serving = what_to_serve(root, weights, params)
    if not asks(root, address):
        yield
        return
    with _one:
        print(f"starting vLLM for {address}; its log is {serving.log.relative_to(root)}", flush=True)
        with running(serving, secret(), stopping):
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


def asks(root: Path, address: str) -> bool:
    """Whether the stage depends on the teacher and is out of date, so that it will use the teacher."""
    stage = declared.load(root, address)
    if SECTION not in stage.param_names:
        return False
    known = locked_stages(root).get(address) if (root / "dvc.lock").exists() else None
    if known is None or not all((root / path).exists() for path in known.outs):
        return True
    return known.key != stage.inputs.stage_key
