"""All questions of the doctor, asked side by side; and their answers as lines or as data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from castaway.config.params import Params
from castaway.errors import CastawayError, first_line
from castaway.tasks.registry import read_params
from castaway.tools.doctor.cores import cores
from castaway.tools.doctor.device import device
from castaway.tools.doctor.disk import disk
from castaway.tools.doctor.dvc_store import dvc_store
from castaway.tools.doctor.finding import Finding, failed, ok
from castaway.tools.doctor.fits import Fit
from castaway.tools.doctor.memory import Estimated, estimated
from castaway.tools.doctor.mlflow_store import mlflow_store
from castaway.tools.doctor.models import models
from castaway.tools.doctor.packages import python_and_packages
from castaway.tools.doctor.ports import ports
from castaway.tools.doctor.repository import repository
from castaway.tools.doctor.servers import prefect, sampler, teacher
from castaway.tools.host_file import TOGETHER, load_host
from castaway.tools.profiles.files import PARAMS

LIMIT_SECONDS = 75.0
"""How long all questions together may take. Each has a limit of its own, but finding an address, for one, has none."""

Question = Callable[[], list[Finding] | Estimated]


@dataclass(frozen=True)
class Report:
    """What the doctor says."""

    findings: list[Finding]
    profiles: list[Fit]

    @property
    def healthy(self) -> bool:
        """Whether nothing failed."""
        return all(one.state != "failed" for one in self.findings)

    def data(self) -> dict[str, Any]:
        """The report as data for JSON."""
        return {
            "healthy": self.healthy,
            "findings": [asdict(one) for one in self.findings],
            "profiles": [asdict(one) for one in self.profiles],
        }

    def text(self) -> str:
        """A line for each finding, its remedy below it, and at the end which profiles this host can run."""
        width = max(len(one.subject) for one in self.findings)
        lines = []
        for one in self.findings:
            lines.append(f"{one.state:<7}  {one.subject:<{width}}  {one.found}")
            if one.remedy:
                lines.append(f"{'':<7}  {'':<{width}}  -> {one.remedy}")
        return "\n".join([*lines, "", *self._fits()])

    def _fits(self) -> list[str]:
        if not self.profiles:
            return ["Which profiles this host can run is unknown."]
        runs = ", ".join(one.name for one in self.profiles if one.fits) or "none"
        told = [f"This host can run these profiles, by estimate: {runs}."]
        return told + [f"Not {one.name}: {one.why_not}." for one in self.profiles if not one.fits]


def examine(root: Path) -> Report:
    """Ask everything.

    Args:
        root: the repository; nothing in it is changed.
    """
    return answered(questions(root.resolve()), LIMIT_SECONDS)


def questions(root: Path) -> dict[str, Question]:
    """Each question by its subject, in the order of the report."""
    first: dict[str, Question] = {"packages": lambda: python_and_packages(root)}
    last: dict[str, Question] = {
        "Prefect": prefect,
        "MLflow": lambda: mlflow_store(root),
        "DVC cache": lambda: dvc_store(root),
        "git": lambda: repository(root),
    }
    try:
        params = read_params(root / PARAMS)
    except CastawayError as error:
        wrong = [failed(PARAMS, str(error), "mend the file; `castaway params` checks it")]
        return {**first, PARAMS: lambda: wrong, **last}
    return {**first, **_of_params(root, params), **last}


def _of_params(root: Path, params: Params) -> dict[str, Question]:
    runs = f"valid; runs {', '.join(params.tasks)}"
    return {
        PARAMS: lambda: [ok(PARAMS, runs)],
        "device": lambda: device(params.device),
        "cores": lambda: cores(params, together(root, params)),
        "memory": lambda: estimated(root),
        "disk": lambda: disk(root, params),
        "ports": lambda: ports(params.teacher),
        "base models": lambda: models(root, params),
        "teacher": lambda: teacher(params.teacher),
        "sampler": lambda: sampler(root, params),
    }


def together(root: Path, params: Params) -> int:
    """The largest number of processes that train a stage together on this host."""
    host = load_host(root)
    return max(host.processes(f"{TOGETHER}@{run}").nproc_per_node for run in params.tasks)


def answered(asked: Mapping[str, Question], seconds: float) -> Report:
    """Ask all questions at the same time; one that is not answered in so many seconds has failed."""
    threads = {subject: _Asking(subject, question) for subject, question in asked.items()}
    end = monotonic() + seconds
    for thread in threads.values():
        thread.start()
    findings: list[Finding] = []
    profiles: list[Fit] = []
    for subject, thread in threads.items():
        thread.join(max(0.0, end - monotonic()))
        answer = thread.answer
        if answer is None:
            answer = [failed(subject, f"no answer within {seconds:g} seconds", "run the doctor again on an idle host")]
        if isinstance(answer, Estimated):
            profiles, answer = answer.profiles, answer.findings
        findings += answer
    return Report(findings, profiles)


class _Asking(threading.Thread):
    """Asks a question. It is a daemon: one that hangs does not keep the process from ending."""

    def __init__(self, subject: str, question: Question) -> None:
        super().__init__(daemon=True)
        self._subject, self._question = subject, question
        self.answer: list[Finding] | Estimated | None = None

    def run(self) -> None:
        """Ask; an error of any kind is an answer too."""
        try:
            self.answer = self._question()
        except CastawayError as error:
            told, _, remedy = str(error).partition("; ")
            self.answer = [failed(self._subject, told, remedy or "mend that, and run the doctor again")]
        except Exception as error:  # the other lines are worth having in any case
            told = f"{type(error).__name__}: {first_line(error)}"
            self.answer = [failed(self._subject, told, "look at what it names, and run the doctor again")]
