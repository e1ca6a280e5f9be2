"""The doctor: says whether this host can build what params.yaml describes, and what to do about what is missing.

It checks what would stop a build, or lose what it records; nothing in the repository is changed.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil
from packaging.requirements import Requirement
from packaging.version import Version

from castaway.config.errors import CastawayError, first_line
from castaway.config.key import KEY_VARIABLE, secret
from castaway.config.params import Params
from castaway.config.sections import TeacherParams
from castaway.processes.hardware import CPU, GIBIBYTE, choose, visible_devices
from castaway.processes.host_file import load_host
from castaway.processes.servers import VARIABLE, configured, get
from castaway.tasks.registry import read_params
from castaway.tools.memory import misfit, needs, sizes_of

LOCKS = ("setup/requirements.lock", "setup/torch.lock")
RECORDS, COPIES = 1e9, 8
"""Bytes that data sets, adapters, episodes and logs take, assumed; and for each weight of a run's model: it is there
before training and merged, in `data` and in DVC's cache, two bytes each time."""

State = Literal["ok", "warning", "failed"]
"""`failed`: a build would stop, or lose what it records. `warning`: it would run, but see to it."""


@dataclass(frozen=True)
class Finding:
    state: State
    subject: str
    detail: str
    remedy: str = ""  # what to do, in one sentence; empty if nothing has to be done

    def __str__(self) -> str:
        line = f"{self.state:<7}  {self.subject:<12}  {self.detail}"
        return f"{line}\n{'':<23}-> {self.remedy}" if self.remedy else line


def judged(good: bool, subject: str, detail: str, remedy: str) -> Finding:
    return Finding("ok", subject, detail) if good else Finding("warning", subject, detail, remedy)


def examine(root: Path) -> list[Finding]:
    root = root.resolve()
    findings = [checked("packages", packages, root), checked("MLflow", mlflow), checked("Prefect", prefect)]
    try:
        params = read_params(root / "params.yaml")
    except CastawayError as error:
        return [*findings, Finding("failed", "params.yaml", str(error), "mend the file; `castaway params` checks it")]
    return [
        *findings,
        checked("device", device, root, params),
        checked("memory", memory, root, params),
        checked("disk", disk, root, params),
        checked("teacher", teacher, params.teacher),
    ]


def checked(subject: str, check: Callable[..., Finding], *arguments: Any) -> Finding:
    """The result of a check; an error of any kind is a finding too, as the others are worth having in any case."""
    try:
        return check(*arguments)
    except Exception as error:
        text = str(error) if isinstance(error, CastawayError) else f"{type(error).__name__}: {first_line(error)}"
        detail, _, remedy = text.partition("; ")
        return Finding("failed", subject, detail, remedy or "mend that, and run the doctor again")


def packages(root: Path) -> Finding:
    """Whether each package that the locks name for this host is installed at that version."""
    if missing := [name for name in LOCKS if not (root / name).is_file()]:
        raise CastawayError(f"{missing[0]} does not exist in {root}; run in a clone of the repository, or give --root")
    pins = {name: pin for lock in LOCKS for name, pin in locked((root / lock).read_text("utf-8")).items()}
    absent, other = [], []
    for name, pin in pins.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            absent.append(name)
            continue
        # Builds of one version, such as torch's for CPUs, CUDA and ROCm, are equal.
        if Version(installed).public != Version(pin).public:
            other.append(f"{name} {installed} instead of {pin}")
    if absent:
        raise CastawayError(f"{len(absent)} of {len(pins)} are missing: {_few(absent)}; run `make setup`")
    detail = f"{len(other)} of {len(pins)} differ from {' and '.join(LOCKS)}" + (f": {_few(other)}" if other else "")
    return judged(not other, "packages", detail, "run `make setup`; with other versions results may differ")


def locked(text: str) -> dict[str, str]:
    """The versions that a lock pins, of the packages that this host needs."""
    pins = [Requirement(line.removesuffix("\\").strip()) for line in text.splitlines() if line[:1].isalnum()]
    return {pin.name: next(iter(pin.specifier)).version for pin in pins if not pin.marker or pin.marker.evaluate()}


def _few(names: Sequence[str], most: int = 4) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def mlflow() -> Finding:
    """Whether the MLflow server answers, if MLFLOW_TRACKING_URI names one."""
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address.startswith(("http://", "https://")):
        return Finding("ok", "MLflow", f"records go to {address or 'mlflow.db'}")
    return health("MLflow", "MLFLOW_TRACKING_URI", address, "start it, or unset the variable to record in mlflow.db")


def prefect() -> Finding:
    """Whether the Prefect server answers, if one is named."""
    if server := configured():
        remedy = f"start it with `make ui` or `prefect server start`, or set {VARIABLE} to nothing"
        return health("Prefect", VARIABLE, server, remedy)
    return Finding("ok", "Prefect", f"neither {VARIABLE} nor a profile names a server: each build starts its own")


def health(subject: str, variable: str, address: str, remedy: str) -> Finding:
    """What a server whose address is in an environment variable says of itself."""
    with suppress(CastawayError):
        if get(f"{address.rstrip('/')}/health").is_success:
            return Finding("ok", subject, f"{address} answers")
    raise CastawayError(f"{variable} is {address}, and no healthy server answers there; {remedy}")


def device(root: Path, params: Params) -> Finding:
    """Whether the devices that stages are pinned to, by params.yaml and host.yaml, are there."""
    present = visible_devices()
    pins = {pin: f"{stage} (host.yaml)" for stage, pin in load_host(root).pins.items()}
    chosen = [
        f"{CPU if kind == 'cpu' else choose(kind, where, present)} for {where}"
        for kind, where in {**pins, params.device: "params.yaml"}.items()
    ]
    return Finding("ok", "device", f"{', '.join(chosen)}; torch {version('torch')}")


def memory(root: Path, params: Params) -> Finding:
    """Whether the largest stage fits into the memory."""
    needed = needs(params, root)
    if not needed:
        return Finding("ok", "memory", "not estimated: the size of no base model is known before it is built")
    if problem := misfit(needed, visible_devices()):
        raise CastawayError(problem)
    most = max(needed, key=lambda need: need.host)
    free = psutil.virtual_memory().available
    detail = f"{most.address} needs about {most.host / GIBIBYTE:.1f} GiB, there are {free / GIBIBYTE:.1f} free"
    return judged(most.host <= free, "memory", detail, "stop other programs before the build")


def disk(root: Path, params: Params) -> Finding:
    """The file system of the repository, and how much a build writes."""
    sizes = [sizes_of(params, one.base, root) for one in params.tasks.values()]
    needed = RECORDS + COPIES * sum(one.parameters for one in sizes if one)
    free = shutil.disk_usage(root).free
    detail = f"{free / GIBIBYTE:.1f} GiB free in {root}, a build writes about {needed / GIBIBYTE:.1f}"
    if free < needed:
        raise CastawayError(f"{detail}; free some: `dvc gc --workspace` removes old outputs from DVC's cache")
    return Finding("ok", "disk", detail)


def teacher(params: TeacherParams) -> Finding:
    """Whether the teacher's server answers and serves the model, if the parameters ask for one."""
    if params.kind == "rules":
        return Finding("ok", "teacher", "the rules of the task judge; no server is needed")
    start = "start it with `castaway teacher serve`, or set teacher.kind to rules"
    try:
        answer = get(f"{params.url}/models", secret())
    except CastawayError as error:
        raise CastawayError(f"nothing answers at {params.url} ({error}); {start}") from None
    if answer.status_code in (401, 403):
        raise CastawayError(f"the server at {params.url} refuses the key; set {KEY_VARIABLE} to its key")
    try:
        served = [str(one["id"]) for one in answer.raise_for_status().json()["data"]]
    except Exception:  # another status, no JSON, or other JSON
        raise CastawayError(f"what answers at {params.url} is no OpenAI-compatible server; {start}") from None
    detail = f"{params.url} is asked for {params.model!r}, and lists {_few(served) or 'no model'}"
    # Only a warning: `transformers serve` lists only models of its cache, and serves others as well.
    return judged(params.model in served, "teacher", detail, "set teacher.model to one that it serves")
