"""`make ui`: real servers, looked at in a real browser, and stopped in every way.

`PICTURES=docs/images pytest tests/flows/test_pages.py` keeps the pictures of the two pages.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page

from castaway.tools.doctor.ports import is_free
from castaway.tools.lineage.locked import locked_stages
from flows.registry import CHAMPION
from flows.report import DRIVER
from flows.store import EXPERIMENT
from tests.castaway.tools.marooned.replay.browser import chromium
from tests.flows.conftest import BODY, EVALUATE, Repository
from tests.flows.running import has_ended

pytestmark = pytest.mark.slow

NEEDS = {
    "dataset": (),
    "sft": ("dataset",),
    "reward_model": ("dataset",),
    "ppo": ("sft", "reward_model"),
    "evaluate": ("ppo",),
    "merge": ("ppo",),
}
PIPELINE = "stages:\n" + "".join(
    f"""\
  {name}:
    matrix: {{run: [marooned]}}
    cmd: python -m flows {name}@${{item.run}}
    deps: [{", ".join([f"stages/{name}.py", *(f"data/marooned/{one}" for one in needed)])}]
    params: [seed, tasks.marooned.task]
    outs: [data/marooned/{name}]
    metrics:
      - data/marooned/metrics/{name}.json: {{cache: false}}
      - data/marooned/runs/{name}.json: {{cache: false}}
"""
    for name, needed in NEEDS.items()
)
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
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    bodies = {"dataset": BODY, "evaluate": EVALUATE}
    for name in NEEDS:
        made.write(f"stages/{name}.py", bodies.get(name, TRAINS))
    made.write("data/.gitkeep", "")
    made.commit()
    shutil.copy(empty_store, made.root)
    return made


class Ui:
    """`python -m flows pages` on two free ports."""

    def __init__(self, ship: Repository) -> None:
        self.ports = [str(port) for port in free_ports(2)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows", "pages", *self.ports],
            cwd=ship.root,
            env=ship.environment(PREFECT_HOME=str(ship.root / "prefect")),
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


@pytest.fixture
def ui(ship: Repository) -> Iterator[Ui]:
    made = Ui(ship)
    yield made
    made.kill()


def picture(page: Page, name: str, folder: Path) -> None:
    page.screenshot(path=Path(os.environ.get("PICTURES", folder)) / f"{name}.png", animations="disabled")


def look_at_mlflow(page: Page, mlflow: str, ship: Repository, folder: Path) -> None:
    """MLflow's own page shows runs nested, the digests of what a run read, its curves, and the champion."""
    page.goto(mlflow)
    page.get_by_text("Model training").first.click()
    page.goto(f"{mlflow}/#/experiments")
    page.get_by_role("link", name=EXPERIMENT).click()
    # The runs of the stages are nested under the driver's, and shown once that is opened.
    driver = page.get_by_role("row").filter(has=page.get_by_role("link", name=DRIVER))
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


def test_both_pages_show_a_build_and_both_servers_are_stopped(ship: Repository, ui: Ui, tmp_path: Path) -> None:
    mlflow, prefect = (f"http://127.0.0.1:{port}" for port in ui.ports)
    assert ui.told.splitlines() == [
        f"MLflow   {mlflow}",
        f"Prefect  {prefect}",
        f"To have a build shown in Prefect: export PREFECT_API_URL={prefect}/api",
        "Ctrl-C stops.",
    ]
    built = ship.run("flows", "pipeline", PREFECT_API_URL=f"{prefect}/api")
    assert built.returncode == 0, built.stderr
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{prefect}/runs")
        page.get_by_text("everything").first.click()
        page.get_by_text("Running stage 'dataset@marooned'").first.wait_for()
        picture(page, "prefect", tmp_path)
        page.set_default_timeout(60_000)
        look_at_mlflow(page, mlflow, ship, tmp_path)
    servers = ui.servers
    assert len(servers) > 2
    ui.process.send_signal(signal.SIGINT)
    told, errors = ui.process.communicate(timeout=60)
    assert (ui.process.returncode, told, errors) == (0, "stopped\n", "")
    assert all(map(has_ended, servers))
    assert all(is_free(int(port)) for port in ui.ports)


def test_a_server_that_ends_stops_the_other_with_one_sentence(ui: Ui) -> None:
    servers = ui.servers
    os.killpg(next(number for number in servers if "mlflow" in command(number)), signal.SIGKILL)
    _, errors = ui.process.communicate(timeout=60)
    assert ui.process.returncode == 2
    assert re.fullmatch(r"error: MLflow's server ended with status -9; the end of \S+mlflow.log: .*\n", errors)
    assert all(map(has_ended, servers))


def test_the_servers_end_with_a_driver_that_is_killed(ui: Ui) -> None:
    servers = ui.servers
    os.kill(ui.process.pid, signal.SIGKILL)
    ui.process.wait()
    assert all(map(has_ended, servers))


def test_a_port_that_is_taken_is_named(ship: Repository) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused = ship.run("flows", "pages", str(free_ports(1)[0]), port)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: port {port} is taken, which Prefect needs: `make ui PREFECT_PORT=ANOTHER`\n"


def test_a_server_of_the_users_own_is_not_started_again(ship: Repository, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "profiles.toml").write_text(
        'active = "ours"\n[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', encoding="utf-8"
    )
    refused = ship.run("flows", "pages", *map(str, free_ports(2)), PREFECT_HOME=str(home))
    assert refused.returncode == 2
    assert "PREFECT_API_URL is http://127.0.0.1:9/api but no Prefect server answers there" in refused.stderr
