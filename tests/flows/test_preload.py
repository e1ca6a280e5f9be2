"""Stages that are forked from a process with torch: the same results, and they end with whoever built them."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import pytest

from castaway.processes.environment import prepare, use_host
from castaway.tasks.registry import read_params
from flows.preload import SOCKET, preloaded
from tests.flows.conftest import BASE_ALONE, Repository
from tests.flows.running import HELD, body_of, has_ended, times_begun

TELLING = """
import json, os, sys
def run(context):
    if os.path.exists("fails"):
        raise ValueError("the sails are torn")
    import torch
    print("aboard", torch.get_num_threads())
    here = {"program": sys.modules["__main__"].__spec__.name, "hash": hash("hull"), "seed": context.params.seed}
    (context.output / "told.json").write_text(json.dumps(here))
    context.log(0, {"loss": 1.0})
    return {"score": 1}
"""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Forking(Repository):
    """A repository whose builds start the process."""

    def environment(self, **variables: str) -> dict[str, str]:
        own = super().environment(**variables)
        return {name: value for name, value in own.items() if name != SOCKET or value}

    def told(self) -> dict[str, object]:
        return dict(json.loads((self.root / "data/base/told.json").read_text()))


@pytest.fixture
def ship(repository: Callable[[str], Repository]) -> Forking:
    made = Forking(repository(BASE_ALONE).root)
    made.write("stages/base.py", TELLING)
    made.write("data/.gitkeep", "")
    return made


def test_a_stage_is_forked_and_says_what_it_would_say_alone(ship: Forking) -> None:
    assert ship.run("dvc", "repro").returncode == 0
    alone = ship.told()
    done = ship.run("flows", "pipeline", "--force")
    assert done.returncode == 0, done.stderr
    assert (alone["program"], ship.told()["program"]) == ("flows.__main__", "flows.preload")
    assert ship.told() == {**alone, "program": "flows.preload"}
    assert "aboard 1\n" in next((ship.root / "scratch/logs").glob("base*")).read_text()
    ship.write("fails", "")
    failed = ship.run("flows", "pipeline", "--force")
    assert failed.returncode == 2
    assert "exit status" in failed.stderr
    assert "the sails are torn" in next((ship.root / "scratch/logs").glob("base*")).read_text()


def test_a_forked_stage_ends_with_its_driver_or_its_command(ship: Forking) -> None:
    ship.write("stages/base.py", HELD)
    for number in (signal.SIGTERM, signal.SIGKILL):
        driver = ship.start("flows", "pipeline")
        stage = body_of(ship)
        process = psutil.Process(stage).ppid()
        driver.send_signal(number)
        driver.wait()
        assert has_ended(stage)
        assert has_ended(process)
        (ship.root / "held/base").unlink()
    driver = ship.start("flows", "pipeline")
    stage = body_of(ship)
    children = psutil.Process(driver.pid).children(recursive=True)
    (command,) = [one for one in children if one.cmdline()[1:] == ["-m", "flows", "base"]]
    command.kill()
    assert driver.wait() == 2
    assert has_ended(stage)
    ship.write("go", "")
    assert ship.run("flows", "pipeline").returncode == 0
    assert times_begun(ship) == 4


def test_a_stage_that_needs_another_environment_starts_afresh(ship: Forking, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ship.environment().items():
        monkeypatch.setenv(name, value)
    prepare()
    use_host(ship.root)
    params = read_params(ship.root / "params.yaml")
    with preloaded(ship.root, params) as variables:
        programs = []
        for changed in ({}, {"OMP_WAIT_POLICY": "ACTIVE"}, {SOCKET: "/dev/null"}):
            done = ship.run("flows", "base", **{**variables, "PYTHONUNBUFFERED": "1", **changed})
            assert done.returncode == 0, done.stderr
            programs.append(ship.told()["program"])
    assert programs == ["flows.preload", "flows.__main__", "flows.__main__"]
    with preloaded(ship.root, params.model_copy(update={"threads": 2})) as variables:
        assert variables == {}
