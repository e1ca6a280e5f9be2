"""PPO in several processes that torchrun starts: killed, started again, and on two hosts; the bytes are the same."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from castaway.tools.host_file import Torchrun
from tests.flows.running import until
from tests.miniature import environment, make_ppo_clone, ppo_digest

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "flows", "ppo@marooned"]
PATIENCE = 300.0
"""How long something may take to happen, in seconds."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> tuple[Path, dict[str, str]]:
    """A clone in which two processes have trained PPO, and what they left."""
    root = tmp_path_factory.mktemp("trained")
    make_ppo_clone(root, shared_cache, steps=4, turns_per_step=24)
    write(root, Torchrun(nproc_per_node=2))
    with started(root) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    return root, ppo_digest(root)


def test_a_process_that_dies_is_started_again_from_the_checkpoint(
    trained: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, expected = copy(trained, tmp_path), trained[1]
    write(root, Torchrun(nproc_per_node=2, max_restarts=1))
    with started(root) as agent:
        checkpoint(root)
        members = ranks(agent)
        assert sorted(members) == [0, 1]
        members[1].kill()
        assert agent.wait(PATIENCE) == 0, output(root)
    assert ppo_digest(root) == expected
    assert set(members.values()).isdisjoint(psutil.process_iter())


def test_a_process_that_dies_for_good_is_told_of(trained: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root = copy(trained, tmp_path)
    write(root, Torchrun(nproc_per_node=2))
    with started(root) as agent:
        checkpoint(root)
        ranks(agent)[1].kill()
        assert agent.wait(PATIENCE) == 2
    told = output(root).splitlines()[-1]
    assert told == "error: ppo@marooned: process 1 of 2 failed with exit status -9; its lines above say why"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_trains_on_after_the_agent(
    trained: tuple[Path, dict[str, str]], tmp_path: Path, number: signal.Signals
) -> None:
    root, expected = copy(trained, tmp_path), trained[1]
    write(root, Torchrun(nproc_per_node=2))
    with started(root) as agent:
        checkpoint(root)
        members = list(ranks(agent).values())
        agent.send_signal(number)
        agent.wait(PATIENCE)
        _, left = psutil.wait_procs(members, PATIENCE)
        assert not left
    with started(root) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    assert ppo_digest(root) == expected


def test_two_hosts_train_what_one_does(trained: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    hosts = [copy(trained, tmp_path / str(number)) for number in range(2)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for number, root in enumerate(hosts):
        write(root, Torchrun(nnodes=2, node_rank=number, master_port=port))
    with started(hosts[1]) as second, started(hosts[0]) as first:
        assert first.wait(PATIENCE) == 0, output(hosts[0])
        assert second.wait(PATIENCE) == 0, output(hosts[1])
    assert ppo_digest(hosts[0]) == trained[1]
    assert not (hosts[1] / "data/marooned/ppo").exists()


def test_a_sharded_model_learns_what_a_whole_one_does(trained: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root = copy(trained, tmp_path)
    write(root, Torchrun(nproc_per_node=2, shard=True))
    with started(root) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    sharded, whole = (load_file(place / "data/marooned/ppo/adapter_model.safetensors") for place in (root, trained[0]))
    assert sharded.keys() == whole.keys()
    # It rounds otherwise: no adapter is folded into weights that are whole only inside a block.
    assert all(torch.allclose(weight, whole[name], rtol=0, atol=1e-3) for name, weight in sharded.items())
    assert any(not torch.equal(weight, whole[name]) for name, weight in sharded.items())


def copy(trained: tuple[Path, dict[str, str]], place: Path) -> Path:
    """The clone without what PPO left."""
    root = place / "clone"
    shutil.copytree(trained[0], root, symlinks=True)
    shutil.rmtree(root / "data/marooned/ppo")
    return root


def write(root: Path, settings: Torchrun) -> None:
    """Write `host.yaml`."""
    (root / "host.yaml").write_text(f"torchrun:\n  ppo: {settings.model_dump_json()}\n", "utf-8")


class started:
    """Context with the stage as a process, which is killed at the end if it still runs."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> subprocess.Popen[bytes]:
        with (self._root / "output.txt").open("wb") as output:
            self._agent = subprocess.Popen(
                COMMAND, cwd=self._root, env=environment(), stdout=output, stderr=subprocess.STDOUT
            )
        return self._agent

    def __exit__(self, *_: object) -> None:
        self._agent.kill()
        self._agent.wait()


def output(root: Path) -> str:
    """What the stage printed."""
    return (root / "output.txt").read_text("utf-8", errors="replace")


def checkpoint(root: Path) -> None:
    """Return once PPO has written a checkpoint."""
    until(lambda: any((root / "scratch").rglob("step-*.pt")), "a checkpoint")


def ranks(agent: subprocess.Popen[bytes]) -> dict[int, psutil.Process]:
    """The processes that torchrun started, by rank."""
    children = psutil.Process(agent.pid).children()
    return {int(child.environ()["RANK"]): child for child in children if "RANK" in child.environ()}
