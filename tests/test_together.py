"""PPO in several processes that torchrun starts: on two hosts, killed, and started again; the bytes are the same."""

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from castaway.processes.host_file import Torchrun
from castaway.processes.servers import free_port
from tests.castaway.rollout.fake_vllm import install
from tests.flows.running import until
from tests.miniature import environment, make_ppo_clone, ppo_digest, set_params

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "flows", "ppo@marooned"]
PATIENCE = 600.0
"""How long something may take to happen, in seconds."""
TWO = Torchrun(nproc_per_node=2)
SERVED = {"ppo.rollout.sampler": "vllm", "ppo.rollout.sampler_gibibytes": 1, "ppo.loss.importance_cap": 2.0}
Trained = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Trained:
    """The clone of the first of two hosts that have trained PPO together, and what they left."""
    hosts = [tmp_path_factory.mktemp("trained") / str(number) for number in range(2)]
    hosts[0].mkdir()
    make_ppo_clone(hosts[0], shared_cache, steps=4, **{"rollout.turns_per_step": 24})
    shutil.copytree(hosts[0], hosts[1], symlinks=True)
    port = free_port()
    settings = [Torchrun(nnodes=2, node_rank=number, master_port=port) for number in range(2)]
    with started(hosts[1], settings[1]) as second, started(hosts[0], settings[0]) as first:
        assert first.wait(PATIENCE) == 0, output(hosts[0])
        assert second.wait(PATIENCE) == 0, output(hosts[1])
    assert not (hosts[1] / "data/marooned/ppo").exists(), "only host 0 writes"
    return hosts[0], ppo_digest(hosts[0])


def test_two_processes_of_one_host_that_are_killed_and_started_again_train_what_two_hosts_do(
    trained: Trained, tmp_path: Path
) -> None:
    root = copy(trained, tmp_path)
    lose_one(root)
    told = output(root).splitlines()[-1]
    assert told == "error: ppo@marooned: process 1 of 2 failed with exit status -9; its lines above say why"
    # The agent is killed: nothing trains on.
    with started(root, TWO) as agent:
        next_checkpoint(root)
        members = list(ranks(agent).values())
        agent.send_signal(signal.SIGKILL)
        agent.wait(PATIENCE)
        _, left = psutil.wait_procs(members, PATIENCE)
        assert not left
    # One dies and is started again; all go on from the checkpoint.
    with started(root, Torchrun(nproc_per_node=2, max_restarts=1)) as agent:
        members = list(ranks(agent).values())
        members[1].kill()
        assert agent.wait(PATIENCE) == 0, output(root)
    assert ppo_digest(root) == trained[1]
    assert set(members).isdisjoint(psutil.process_iter())


def test_a_sharded_model_learns_what_a_whole_one_does(trained: Trained, tmp_path: Path) -> None:
    root = copy(trained, tmp_path)
    with started(root, Torchrun(nproc_per_node=2, shard=True)) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    sharded, whole = (load_file(place / "data/marooned/ppo/adapter_model.safetensors") for place in (root, trained[0]))
    assert sharded.keys() == whole.keys()
    # It rounds otherwise: no adapter is folded into weights that are whole only inside a block.
    assert all(torch.allclose(weight, whole[name], rtol=0, atol=1e-3) for name, weight in sharded.items())
    assert any(not torch.equal(weight, whole[name]) for name, weight in sharded.items())


def test_two_processes_learn_from_what_one_server_draws_and_go_on_after_a_stop(
    trained: Trained, tmp_path: Path
) -> None:
    root = copy(trained, tmp_path)
    set_params(root, SERVED)
    with started(root, TWO) as agent:
        assert agent.wait(PATIENCE) == 2
    assert output(root).count("error: there is no vLLM in") == 2, "the one that waits for the server is told"
    install(root / ".venv-vllm")
    with started(root, TWO) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    whole = ppo_digest(root)
    shutil.rmtree(root / "data/marooned/ppo")
    lose_one(root)
    with started(root, TWO) as agent:
        assert agent.wait(PATIENCE) == 0, output(root)
    assert ppo_digest(root) == whole != trained[1]


def copy(trained: Trained, place: Path) -> Path:
    """The clone without what PPO left."""
    root = place / "clone"
    shutil.copytree(trained[0], root, symlinks=True)
    shutil.rmtree(root / "data/marooned/ppo")
    return root


@contextlib.contextmanager
def started(root: Path, settings: Torchrun) -> Iterator[subprocess.Popen[bytes]]:
    """The stage as a process, with these settings in `host.yaml`; it is killed at the end if it still runs."""
    (root / "host.yaml").write_text(f"torchrun:\n  ppo: {settings.model_dump_json()}\n", "utf-8")
    with (root / "output.txt").open("wb") as file:
        agent = subprocess.Popen(COMMAND, cwd=root, env=environment(), stdout=file, stderr=subprocess.STDOUT)
    try:
        yield agent
    finally:
        agent.kill()
        agent.wait()


def lose_one(root: Path) -> None:
    """Train with two processes, of which one dies for good after a checkpoint."""
    with started(root, TWO) as agent:
        next_checkpoint(root)
        ranks(agent)[1].kill()
        assert agent.wait(PATIENCE) == 2


def output(root: Path) -> str:
    """What the stage printed."""
    return (root / "output.txt").read_text("utf-8", errors="replace")


def next_checkpoint(root: Path) -> None:
    """Return once PPO has written another checkpoint."""
    seen = set((root / "scratch").rglob("step-*.pt"))
    until(lambda: set((root / "scratch").rglob("step-*.pt")) - seen, "a checkpoint")


def ranks(agent: subprocess.Popen[bytes]) -> dict[int, psutil.Process]:
    """The two processes that torchrun starts, by rank, once they are there."""
    members: dict[int, psutil.Process] = {}

    def both() -> bool:
        for child in psutil.Process(agent.pid).children():
            with contextlib.suppress(psutil.Error):
                if "RANK" in child.environ():
                    members[int(child.environ()["RANK"])] = child
        return sorted(members) == [0, 1]

    until(both, "the start of both processes")
    return members
