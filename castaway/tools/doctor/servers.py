"""The servers that a build asks: the teacher's, the sampler of PPO, and Prefect's."""

from __future__ import annotations

from pathlib import Path

from castaway.config.params import Params
from castaway.config.sections import TeacherParams
from castaway.errors import CastawayError
from castaway.teacher.key import KEY_VARIABLE, secret
from castaway.tools.doctor.asking import get, is_here
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.prefect_address import VARIABLE, address

REFUSED = (401, 403)
"""The statuses of a server that wants another key."""


def teacher(params: TeacherParams) -> list[Finding]:
    """Whether the teacher's server answers and serves the model, if the parameters ask for one."""
    if params.kind == "rules":
        return [ok("teacher", "the rules of the task judge; no server is needed")]
    where = f"{params.url} is asked for the model {params.model!r}"
    start = "start it there, or set teacher.kind to rules"
    if is_here(params.url):
        start = "start it with `castaway teacher serve`, or build with `python -m flows pipeline --teacher WEIGHTS`"
    try:
        answer = get(f"{params.url}/models", secret())
    except CastawayError as error:
        return [failed("teacher", f"{where}, but nothing answers there ({error})", start)]
    if answer.status_code in REFUSED:
        return [failed("teacher", f"{where}, but the server refuses the key", f"set {KEY_VARIABLE} to its key")]
    try:
        served = [str(one["id"]) for one in answer.raise_for_status().json()["data"]]
    except Exception:  # another status, no JSON, or other JSON: whatever it is, it is no such server
        return [failed("teacher", f"{where}, but what answers there is no OpenAI-compatible server", start)]
    if params.model not in served:
        # `transformers serve` lists only models of its cache, and serves others as well.
        names = ", ".join(served) or "no model"
        return [warning("teacher", f"{where}, and the server lists {names}", "set teacher.model to one that it serves")]
    return [ok("teacher", f"{params.url} serves {params.model}")]


def sampler(root: Path, params: Params) -> list[Finding]:
    """Whether vLLM is installed, if a run has it sample the replies of PPO or of the evaluation."""
    own = {name: params.for_run(name) for name in params.tasks}
    runs = [name for name, run in own.items() if "vllm" in (run.ppo.sampler, run.evaluate.sampler)]
    if not runs:
        return []
    python = root / ".venv-vllm" / "bin" / "python"
    if python.exists():
        return [ok("sampler", f"vLLM in {python.parents[1]}, for {', '.join(runs)}")]
    return [
        failed("sampler", f"{', '.join(runs)} sample with vLLM, but there is no {python}", "install it: docs/setup.md")
    ]


def prefect() -> list[Finding]:
    """Whether the Prefect server answers, if one is named."""
    server = address()
    if not server:
        return [ok("Prefect", f"neither {VARIABLE} nor a profile names a server: the driver runs without")]
    remedy = f"start it with `make ui` or `prefect server start`, or set {VARIABLE} to nothing"
    return [health("Prefect", VARIABLE, server, remedy)]


def health(subject: str, variable: str, address: str, remedy: str) -> Finding:
    """Whether the server whose address is in an environment variable says that it is well."""
    try:
        answer = get(f"{address}/health")
    except CastawayError as error:
        return failed(subject, f"{variable} is {address}, but nothing answers there ({error})", remedy)
    if not answer.is_success:
        return failed(subject, f"{variable} is {address}, which answers with {answer.status_code}", remedy)
    return ok(subject, f"{address} answers")
