"""Ports that are free, taken by the right server, or by another one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from castaway.tasks.registry import read_params
from castaway.tools.doctor import asking
from castaway.tools.doctor.ports import MLFLOW, PREFECT, Service, port, ports, teachers

ROOT = Path(__file__).parents[4]
TEACHER = read_params(ROOT / "params.yaml").teacher
Serve = Callable[[dict[str, tuple[int, str]]], int]


def at(service: Service, number: int) -> Service:
    return replace(service, port=number)


def test_a_free_port_is_free(free: int) -> None:
    found = port(at(MLFLOW, free))
    assert (found.subject, found.state, found.remedy) == (f"port {free}", "ok", "")


@pytest.mark.parametrize(
    ("service", "answers"),
    [
        (MLFLOW, {"/health": (200, "OK")}),
        (PREFECT, {"/api/health": (200, "true")}),
        (teachers(TEACHER), {"/v1/models": (200, '{"object": "list", "data": []}')}),
    ],
)
def test_the_server_that_belongs_there_may_listen(
    service: Service, answers: dict[str, tuple[int, str]], serve: Serve
) -> None:
    found = port(at(service, serve(answers)))
    assert (found.state, found.found) == ("ok", f"{service.name} listens there")


def test_a_key_is_sent_to_the_teacher(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    number = serve({"/v1/models": (200, '{"data": []}'), "key": (0, "sesame")})
    served = TEACHER.model_copy(update={"kind": "openai"})
    assert port(at(teachers(served), number)).state == "warning"
    monkeypatch.setenv("CASTAWAY_TEACHER_KEY", "sesame")
    assert port(at(teachers(served), number)).state == "ok"


def test_another_program_is_a_warning_with_a_way_out(serve: Serve) -> None:
    number = serve({"/": (200, "hello")})
    for service in (MLFLOW, PREFECT, teachers(TEACHER.model_copy(update={"kind": "openai"}))):
        found = port(at(service, number))
        assert found.state == "warning" and found.remedy == service.elsewhere
        assert f"is not {service.name}" in found.found


def test_a_program_that_says_nothing_holds_nobody_up(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SERVER_SECONDS", 0.2)
    assert port(at(MLFLOW, silent)).state == "warning"
    # Nobody needs the teacher's port where the rules judge.
    assert port(at(teachers(TEACHER), silent)).state == "ok"


def test_a_teacher_elsewhere_needs_no_port_here() -> None:
    away = TEACHER.model_copy(update={"url": "http://192.0.2.1:8000/v1"})
    assert len(ports(TEACHER)) == 3 and len(ports(away)) == 2
