"""`make ui`: real servers, looked at in a real browser, and stopped in every way.

`PICTURES=docs/images pytest tests/flows/test_ui.py` keeps the pictures of the two pages.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, Response
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from castaway.metrics.built import locked_stages
from castaway.processes.servers import is_free
from castaway.tracking.registry import CHAMPION
from castaway.tracking.store import EXPERIMENT, runs_page
from flows.pipeline_run import DRIVER
from flows.prefect_server import EPHEMERAL
from tests.castaway.tools.browser import chromium
from tests.flows.conftest import BODY, EVALUATE, Repository, of_marooned
from tests.flows.running import answer_of, has_ended, until

pytestmark = pytest.mark.slow

NEEDS = {
    "dataset": (),
    "sft": ("dataset",),
    "reward_model": ("dataset",),
    "ppo": ("sft", "reward_model"),
    "evaluate": ("ppo",),
    "merge": ("ppo",),
}
PIPELINE = of_marooned({name: (needed, "seed, tasks.marooned.task") for name, needed in NEEDS.items()})
TRAINS = """
def run(context):
    (context.output / "model.safetensors").write_text(f"{context.stage} {context.params.seed}")
    for step in range(1, 41):
        falls = 9 / (step + 9)
        context.log(step, {"success_rate": 1 - falls, "invalid_rate": falls**2, "entropy": falls})
    return {}
"""
SIZE = {"width": 1280, "height": 720}


@pytest.fixture
def ship(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    bodies = {"dataset": BODY, "evaluate": EVALUATE}
    for name in NEEDS:
        made.write(f"stages/{name}.py", bodies.get(name, TRAINS))
    made.write("data/.gitkeep", "")
    made.commit()
    return made


class Ui:
    """`python -m flows ui` on two free ports."""

    def __init__(self, ship: Repository) -> None:
        self.ports = [str(port) for port in free_ports(2)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows", "ui", *self.ports],
            cwd=ship.root,
            env=ship.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.told = ""
        for line in self.process.stdout:
            self.told += line
            if line.startswith("Ctrl-C"):
                break

    @property
    def servers(self) -> list[int]:
        """The processes of the servers."""
        return [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]

    def kill(self) -> None:
        """End everything at once."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for number in [*self.servers, self.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        self.process.wait()


def command(number: int) -> str:
    """How a process was started; empty for one that has ended meanwhile, as a server's short-lived children do."""
    try:
        return " ".join(psutil.Process(number).cmdline()[:4])
    except psutil.Error:
        return ""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def picture(page: Page, name: str, folder: Path) -> None:
    page.screenshot(path=Path(os.environ.get("PICTURES", folder)) / f"{name}.png", animations="disabled")


def look_at_mlflow(page: Page, mlflow: str, ship: Repository, folder: Path) -> None:
    """MLflow's own page shows runs nested, the digests of what a run read, its curves, and the champion."""
    page.goto(mlflow)
    page.get_by_text("Model training").first.click()
    page.goto(f"{mlflow}/#/experiments")
    page.get_by_role("link", name=EXPERIMENT).click()
    # The runs of the stages are nested under the driver's, and shown once that is opened.
    # The first build, in which all of them ran, is the last row.
    driver = page.get_by_role("row").filter(has=page.get_by_role("link", name=DRIVER, exact=True)).last
    driver.get_by_role("button").first.click()
    page.get_by_role("link", name="reward_model@marooned").wait_for()
    page.get_by_role("button", name="Close").first.click()  # MLflow's assistant, which opens beside the runs
    picture(page, "mlflow", folder)

    ppo = locked_stages(ship.root)["ppo@marooned"]
    page.get_by_role("link", name=ppo.address).click()
    page.get_by_text(f"data/marooned/reward_model ({ppo.dependencies['data/marooned/reward_model']})").wait_for()
    page.get_by_role("link", name=DRIVER).wait_for()  # as its parent
    picture(page, "mlflow-run", folder)
    page.get_by_role("tab", name="Model metrics").click()
    for curve in ("entropy", "invalid_rate", "success_rate"):
        page.get_by_text(curve, exact=True).wait_for()
    page.locator(".js-line").nth(2).wait_for()
    picture(page, "mlflow-curves", folder)

    page.goto(f"{mlflow}/#/models/marooned")
    page.get_by_role("link", name="Version 1").wait_for()
    page.get_by_text(f"@ {CHAMPION}").wait_for()
    picture(page, "mlflow-model", folder)


def runs_of(prefect: str, flow: str) -> dict[str, dict[str, Any]]:
    """The runs of a flow, by name."""
    named = {"flows": {"name": {"any_": [flow]}}}
    found = answer_of("POST", f"{prefect}/api/flow_runs/filter", **named)
    return {run["name"]: run for run in found.json()}


def build_from(page: Page, prefect: str, target: str) -> None:
    """Type a target into Prefect's page, and have it built."""
    page.goto(f"{prefect}/deployments")
    page.get_by_role("link", name="pipeline-here").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("list", exact=True).first.click()
    page.get_by_role("button", name="Add item").click()
    page.locator("textarea").first.fill(target)
    assert submitted(page).ok


def submitted(page: Page) -> Response:
    """The answer to the form. On a busy host the page loses a click that comes before it has read what was typed."""
    for _ in range(5):
        with contextlib.suppress(PlaywrightTimeout):
            with page.expect_response(lambda answer: "create_flow_run" in answer.url, timeout=20_000) as created:
                page.get_by_role("button", name="Submit").click()
            return created.value
    raise AssertionError("the form was not sent")


def look_at_build(page: Page, prefect: str, name: str, stage: str) -> None:
    """The page of a build shows its stages with their states."""
    page.goto(f"{prefect}/runs/flow-run/{runs_of(prefect, 'pipeline')[name]['id']}")
    page.get_by_text("Task Runs", exact=True).click()
    page.get_by_role("link", name=stage).first.wait_for()
    page.get_by_text("Ran", exact=True).first.wait_for()


def test_earlier_builds_are_shown_and_another_is_started_from_the_page(ship: Repository, tmp_path: Path) -> None:
    built = ship.run("flows", "pipeline", **{EPHEMERAL: "true"})
    assert built.returncode == 0, built.stdout + built.stderr
    ui = Ui(ship)
    try:
        mlflow, prefect = (f"http://127.0.0.1:{port}" for port in ui.ports)
        assert ui.told.splitlines() == [
            f"MLflow   {runs_page(ship.root, mlflow)}",
            f"Prefect  {prefect}",
            "Deployments -> pipeline-here -> Run builds in this clone, and so does any build in a terminal.",
            "Ctrl-C stops.",
        ]
        assert [run["state_type"] for run in runs_of(prefect, "pipeline").values()] == ["COMPLETED"]
        ship.change("params.yaml", "seed: 1", "seed: 2")
        with chromium() as browser:
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(120_000)
            look_at_build(page, prefect, "everything", "merge@marooned")
            picture(page, "prefect", tmp_path)
            page.get_by_text("Artifacts", exact=True).first.click()
            page.get_by_text("stages", exact=True).first.wait_for()
            build_from(page, prefect, "sft@marooned")
            until(
                lambda: runs_of(prefect, "pipeline").get("sft@marooned", {}).get("state_type") == "COMPLETED",
                "the build from the page",
            )
            assert (ship.root / "data/marooned/sft/model.safetensors").read_text() == "sft 2"
            look_at_build(page, prefect, "sft@marooned", "sft@marooned")
            picture(page, "prefect-run", tmp_path)
            # The flow run of a stage has its lines.
            page.goto(f"{prefect}/runs/flow-run/{runs_of(prefect, 'sft')['sft@marooned']['id']}")
            page.get_by_text("Running stage 'sft@marooned'").first.wait_for()
            look_at_mlflow(page, mlflow, ship, tmp_path)
        servers = ui.servers
        assert len(servers) > 3
        ui.process.send_signal(signal.SIGINT)
        told, errors = ui.process.communicate(timeout=120)
        assert (ui.process.returncode, told, errors) == (0, "stopped\n", "")
        assert all(map(has_ended, servers))
        assert all(is_free(int(port)) for port in ui.ports)
    finally:
        ui.kill()


def test_a_server_that_ends_stops_the_other_with_one_sentence(ship: Repository) -> None:
    ui = Ui(ship)
    try:
        servers = ui.servers
        os.killpg(next(number for number in servers if "mlflow" in command(number)), signal.SIGKILL)
        _, errors = ui.process.communicate(timeout=60)
    finally:
        ui.kill()
    assert ui.process.returncode == 2
    assert re.fullmatch(r"error: MLflow's server ended with status -9; the end of \S+mlflow.log: .*\n", errors)
    assert all(map(has_ended, servers))


def test_a_port_that_is_taken_and_a_server_of_the_users_own_that_is_not_there_are_named(
    ship: Repository, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused = ship.run("flows", "ui", str(free_ports(1)[0]), port)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: port {port} is taken, which Prefect needs: `make ui PREFECT_PORT=ANOTHER`\n"

    ours = 'active = "ours"\n[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    (tmp_path / "profiles.toml").write_text(ours, encoding="utf-8")
    refused = ship.run("flows", "ui", *map(str, free_ports(2)), PREFECT_HOME=str(tmp_path))
    assert refused.returncode == 2
    assert "PREFECT_API_URL is http://127.0.0.1:9/api but no Prefect server answers there" in refused.stderr
