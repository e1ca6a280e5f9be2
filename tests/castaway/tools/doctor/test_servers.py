"""The teacher's server and Prefect's: there, absent, of another kind, or without a word."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest

from castaway.config.sections import TeacherParams
from castaway.tasks.registry import read_params
from castaway.tools.doctor import asking
from castaway.tools.doctor.ports import PREFECT, port
from castaway.tools.doctor.servers import prefect, sampler, teacher

ROOT = Path(__file__).parents[4]
PARAMS = read_params(ROOT / "params.yaml")
LISTED = '{"object": "list", "data": [{"id": "teacher"}, {"id": "other"}]}'
Serve = Callable[[dict[str, tuple[int, str]]], int]


def served(number: int, model: str = "teacher") -> TeacherParams:
    url = f"http://127.0.0.1:{number}/v1"
    return PARAMS.teacher.model_copy(update={"kind": "openai", "url": url, "model": model})


def test_the_rules_need_no_server() -> None:
    (found,) = teacher(PARAMS.teacher)
    assert found.state == "ok"


def test_a_teacher_that_serves_the_model(serve: Serve) -> None:
    (found,) = teacher(served(serve({"/v1/models": (200, LISTED)})))
    assert found.state == "ok" and found.found.endswith("serves teacher")


def test_a_model_that_is_not_listed_is_a_warning(serve: Serve) -> None:
    (found,) = teacher(served(serve({"/v1/models": (200, LISTED)}), "nobody"))
    assert found.state == "warning" and "lists teacher, other" in found.found


def test_a_key_that_is_refused_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    number = serve({"/v1/models": (200, LISTED), "key": (0, "sesame")})
    (found,) = teacher(served(number))
    assert found.state == "failed" and "CASTAWAY_TEACHER_KEY" in found.remedy
    monkeypatch.setenv("CASTAWAY_TEACHER_KEY", "sesame")
    assert teacher(served(number))[0].state == "ok"


@pytest.mark.parametrize("answer", [(500, "oops"), (200, "<html>"), (200, "[]"), (200, '{"data": [1]}')])
def test_another_server_is_no_teacher(serve: Serve, answer: tuple[int, str]) -> None:
    (found,) = teacher(served(serve({"/v1/models": answer})))
    assert found.state == "failed" and "no OpenAI-compatible server" in found.found


def test_a_teacher_that_is_absent_or_silent(free: int, silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SERVER_SECONDS", 0.2)
    for number in (free, silent):
        (found,) = teacher(served(number))
        assert found.state == "failed" and "castaway teacher serve" in found.remedy
        assert "\n" not in found.found


def test_without_an_address_prefect_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert prefect()[0].state == "ok"


def test_a_prefect_server_that_does_not_answer(
    serve: Serve, free: int, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SERVER_SECONDS", 0.2)
    for number in (free, silent, serve({})):
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{number}/api")
        (found,) = prefect()
        assert found.state == "failed" and "prefect server start" in found.remedy
    monkeypatch.setenv("PREFECT_API_URL", "nonsense")
    assert prefect()[0].state == "failed"


@pytest.mark.slow
def test_a_real_prefect_server_answers(tmp_path: Path, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{free}/api"
    monkeypatch.setenv("PREFECT_API_URL", f"{address}/")
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1"]
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path)}
    command += ["--port", str(free)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        end = monotonic() + 240
        while prefect()[0].state == "failed":
            assert server.poll() is None and monotonic() < end, "the Prefect server did not start"
            sleep(0.1)
        assert prefect()[0].found == f"{address} answers"
        assert port(replace(PREFECT, port=free)).found == "Prefect's server listens there"
        server.terminate()
    assert prefect()[0].state == "failed"


def test_a_run_that_samples_with_vllm_needs_it(tmp_path: Path) -> None:
    assert sampler(tmp_path, PARAMS) == []
    ppo = PARAMS.ppo.model_copy(update={"sampler": "vllm", "importance_cap": 2.0})
    params = PARAMS.model_copy(update={"ppo": ppo})
    evaluated = PARAMS.model_copy(update={"evaluate": PARAMS.evaluate.model_copy(update={"sampler": "vllm"})})
    assert sampler(tmp_path, evaluated) == sampler(tmp_path, params)
    (found,) = sampler(tmp_path, params)
    assert found.state == "failed" and found.found.startswith("marooned, openspiel, strictbot sample with vLLM")
    (tmp_path / ".venv-vllm" / "bin").mkdir(parents=True)
    (tmp_path / ".venv-vllm" / "bin" / "python").touch()
    assert sampler(tmp_path, params)[0].state == "ok"
