"""Two runs of one task that differ in one key stand side by side, and share their base model."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.miniature import edited, make_clone, ran, run

pytestmark = pytest.mark.slow
RUNS = ("strictbot", "strictbot_warm")


def test_a_second_run_shares_what_it_can(tmp_path: Path) -> None:
    make_clone(tmp_path)
    run(tmp_path, "dvc", "repro", "evaluate@strictbot")
    before = (tmp_path / "data/answers/metrics/base.json").read_bytes()

    # The same block under another name, with one key set differently.
    with edited(tmp_path / "params.yaml") as params:
        second = copy.deepcopy(params["tasks"]["strictbot"])
        params["tasks"]["strictbot_warm"] = {**second, "evaluate": {"temperature": 1.0}}
    run(tmp_path, "python", "-m", "flows", "closure", "--write")
    executed = ran(run(tmp_path, "dvc", "repro", "evaluate@strictbot_warm", "evaluate@strictbot"))
    assert "base@answers" not in executed and not [address for address in executed if address.endswith("@strictbot")]
    assert "evaluate@strictbot_warm" in executed
    assert (tmp_path / "data/answers/metrics/base.json").read_bytes() == before

    # What the key does not reach has the same bytes; both stand in the results.
    adapters = [(tmp_path / f"data/{name}/sft/adapter_model.safetensors").read_bytes() for name in RUNS]
    assert adapters[0] == adapters[1]
    shown = run(tmp_path, "python", "-m", "castaway.cli.main", "results")
    assert all(f"### {name}\n" in shown for name in RUNS)
    records = [json.loads((tmp_path / f"data/{name}/runs/evaluate.json").read_text("utf-8")) for name in RUNS]
    assert records[0]["stage_key"] != records[1]["stage_key"]
