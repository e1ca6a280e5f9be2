"""The environment that a stage sees, of all that can be set around it."""

import json
from collections.abc import Callable

import pytest

from tests.castaway.processes.test_environment import FOR_OTHERS
from tests.flows.conftest import BASE_ALONE, WITHOUT_MLFLOW, Repository

TELLING = """
import json, os
def run(context):
    (context.output / "variables.json").write_text(json.dumps(dict(os.environ)))
    return {"score": 1}
"""


@pytest.mark.parametrize("command", [("dvc", "repro"), ("flows", "pipeline")])
def test_nothing_that_is_meant_for_another_program_reaches_a_stage(
    repository: Callable[[str], Repository], command: tuple[str, ...]
) -> None:
    ship = repository(BASE_ALONE)
    ship.write("stages/base.py", TELLING)
    done = ship.run(*command, **FOR_OTHERS, **WITHOUT_MLFLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads((ship.root / "data/base/variables.json").read_text("utf-8"))
    assert not FOR_OTHERS.keys() & seen.keys()


def test_a_shell_that_refuses_to_run_commands_is_not_asked(repository: Callable[[str], Repository]) -> None:
    ship = repository(BASE_ALONE)
    ship.write("stages/base.py", TELLING)
    done = ship.run("flows", "pipeline", SHELL="/bin/false", **WITHOUT_MLFLOW)
    assert done.returncode == 0, done.stdout + done.stderr
