"""What is said of one host: it is typed, and decides where stages run, and nothing else."""

from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tools.host_file import Host, load_host


def test_without_a_file_nothing_is_special(tmp_path: Path) -> None:
    assert load_host(tmp_path) == Host()
    (tmp_path / "host.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert load_host(tmp_path) == Host()
    assert Host().pin("ppo@marooned", "cuda") == "cuda" and Host().gpus is None


def test_an_address_counts_more_than_a_stage(tmp_path: Path) -> None:
    text = "pins: {ppo: mi300x, ppo@strictbot: cpu}\ngpus: [2, 3]\n"
    (tmp_path / "host.yaml").write_text(text, encoding="utf-8")
    host = load_host(tmp_path)
    found = {address: host.pin(address, "cuda") for address in ("ppo@marooned", "ppo@strictbot", "sft@marooned")}
    assert found == {"ppo@marooned": "mi300x", "ppo@strictbot": "cpu", "sft@marooned": "cuda"}
    assert host.gpus == [2, 3]


def test_a_stage_has_the_processes_of_its_address(tmp_path: Path) -> None:
    text = "checkpoints: /mnt/shared\ntorchrun: {ppo: {nproc_per_node: 2, max_restarts: 1}, ppo@strictbot: {}}\n"
    (tmp_path / "host.yaml").write_text(text, encoding="utf-8")
    host = load_host(tmp_path)
    found = [host.processes(address) for address in ("ppo@marooned", "ppo@strictbot", "sft@marooned")]
    assert [(one.nproc_per_node, one.max_restarts) for one in found] == [(2, 1), (1, 0), (1, 0)]
    assert host.checkpoints == "/mnt/shared"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pin: {}", "host.yaml: pin is unknown, did you mean pins?"),
        ("pins: {ppo: tpu}", "host.yaml: pins.ppo is 'tpu', expected 'cpu', 'cuda' or 'mi300x'"),
        ("gpus: []", "host.yaml: gpus is [], expected list should have at least 1 item after validation, not 0"),
        (
            "torchrun: {sft: {nproc_per_node: 2}}",
            "host.yaml: torchrun.sft is trained by one process, expected ppo or ppo@RUN",
        ),
        (
            "torchrun: {ppo: {nnodes: 2}}",
            "host.yaml: torchrun.ppo.master_port is null, expected a port of host 0 if nnodes is above 1",
        ),
        (
            "torchrun: {ppo: {shard: true}}",
            "host.yaml: torchrun.ppo.shard is true, expected several processes: nproc_per_node or nnodes above 1",
        ),
        (
            "torchrun: {ppo: {node_rank: 1}}",
            "host.yaml: torchrun.ppo.node_rank is 1, expected less than nnodes, 1",
        ),
        ("[]", "host.yaml holds a list, expected a mapping"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "host.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(CastawayError) as caught:
        load_host(tmp_path)
    assert str(caught.value) == told
