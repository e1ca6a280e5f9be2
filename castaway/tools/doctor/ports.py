"""The ports that MLflow's page, Prefect's server and the teacher's server listen on."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from castaway.config.sections import TeacherParams
from castaway.errors import CastawayError
from castaway.teacher.key import secret
from castaway.tools.doctor.asking import get, is_here
from castaway.tools.doctor.finding import Finding, ok, warning


@dataclass(frozen=True)
class Service:
    """A server that may listen on a port of this host."""

    name: str
    port: int
    path: str
    """What it is asked for."""
    sign: str
    """What is in its answer, and in no other server's."""
    elsewhere: str
    """What to do if another program has the port; empty if that does not matter."""
    key: str = ""
    """Sent as a bearer token, unless it is empty."""


MLFLOW = Service("MLflow's page", 5000, "/health", "OK", "give `make ui` another port: `make ui PORT=5001`")
PREFECT = Service(
    "Prefect's server",
    4200,
    "/api/health",
    "true",
    "give Prefect's server another port: `make ui PREFECT_PORT=4201`",
)


def ports(teacher: TeacherParams) -> list[Finding]:
    """A finding for each port."""
    found = [port(MLFLOW), port(PREFECT)]
    if is_here(teacher.url):
        found.append(port(teachers(teacher)))
    return found


def teachers(teacher: TeacherParams) -> Service:
    """The teacher's server, which is on this host."""
    number = urlsplit(teacher.url).port or 80
    elsewhere = "" if teacher.kind == "rules" else "stop it, or change teacher.url in params.yaml"
    return Service("the teacher", number, "/v1/models", '"data"', elsewhere, secret())


def port(service: Service) -> Finding:
    """Whether a port is free, or has the server that belongs there, or another."""
    subject = f"port {service.port}"
    if is_free(service.port):
        return ok(subject, f"free, for {service.name}")
    if _is_its_own(service):
        return ok(subject, f"{service.name} listens there")
    if not service.elsewhere:
        return ok(subject, f"taken by another program, and not needed for {service.name} with these parameters")
    return warning(subject, f"taken by a program that is not {service.name}", service.elsewhere)


def is_free(number: int) -> bool:
    """Whether a server could listen on that port of the loopback device."""
    with socket.socket() as probe:
        # As servers do: a connection that has just ended does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True


def _is_its_own(service: Service) -> bool:
    try:
        answer = get(f"http://127.0.0.1:{service.port}{service.path}", service.key)
    except CastawayError:
        return False
    return answer.is_success and service.sign in answer.text
