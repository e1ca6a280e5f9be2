"""What is said of one host: it is typed, and decides where stages run, and nothing else."""

from pathlib import Path

import pytest

from castaway.processes.host_file import Host, load_host
from tests.castaway.command import refused


def test_without_a_file_nothing_is_special(tmp_path: Path) -> None:
    assert load_host(tmp_path) == Host()
    (tmp_path / "host.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert load_host(tmp_path) == Host()
    assert Host().pin("ppo@marooned", "cuda") == "cuda" and Host().gpus is None


def test_an_address_counts_more_than_a_stage(tmp_path: Path) -> None:
    text = "pins: {ppo: mi300x, ppo@strictbot: cpu}\ngpus: [2, 3]\ncheckpoints: /mnt/shared\n"
    text += "torchrun: {ppo: {nproc_per_node: 2, max_restarts: 1}, ppo@strictbot: {}}\n"
    text += "vllm: {ppo: {tensor_parallel_size: 2, data_parallel_size: 4}}\n"
    (tmp_path / "host.yaml").write_text(text, encoding="utf-8")
    host, addresses = load_host(tmp_path), ("ppo@marooned", "ppo@strictbot", "sft@marooned")
    assert [host.pin(address, "cuda") for address in addresses] == ["mi300x", "cpu", "cuda"]
    settings = [host.processes(address) for address in addresses]
    assert [(one.nproc_per_node, one.max_restarts) for one in settings] == [(2, 1), (1, 0), (1, 0)]
    assert [host.served(address).gpus for address in addresses] == [8, 8, 1]
    assert (host.gpus, host.checkpoints) == ([2, 3], "/mnt/shared")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pin: {}", "pin is unknown, did you mean pins?"),
        ("torchrun: {sft: {nproc_per_node: 2}}", "torchrun.sft is trained by one process, expected ppo or ppo@RUN"),
        (
            "torchrun: {ppo: {nnodes: 2}}",
            "torchrun.ppo.master_port is null, expected a port of host 0 if nnodes is above 1",
        ),
        (
            "torchrun: {ppo: {shard: true}}",
            "torchrun.ppo.shard is true, expected several processes: nproc_per_node or nnodes above 1",
        ),
        ("torchrun: {ppo: {node_rank: 1}}", "torchrun.ppo.node_rank is 1, expected less than nnodes, 1"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "host.yaml").write_text(text, encoding="utf-8")
    assert refused(load_host, tmp_path) == f"host.yaml: {told}"
