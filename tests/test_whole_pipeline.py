"""The whole DAG in miniature, in a clone: built, cached, rebuilt from a changed parameter, restored, and evaluated."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from transformers import AutoModelForCausalLM, AutoTokenizer

from flows.environment import SILENT

ROOT = Path(__file__).parents[1]
STAGES = ["dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]
SMALL = {
    "threads": 1,
    "base.hidden_size": 32,
    "base.layers": 1,
    "base.heads": 2,
    "base.episodes": 3,
    "dataset.episodes": 4,
    "dataset.demonstrations": 48,
    "dataset.pairs": 64,
    "dataset.held_out_pairs": 32,
    "ppo.steps": 2,
    "ppo.episodes_per_step": 2,
    "ppo.sft_interval": 1,
    "ppo.sft_minimum": 1,
    "ppo.checkpoint_interval": 1,
    "correction_sft.limit": 32,
    "evaluate.episodes": 4,
    "evaluate.traitor_episodes": 2,
    "evaluate.replays": 1,
}


def set_params(root: Path, values: dict[str, object]) -> None:
    """Change leaves of params.yaml in place, as a person with an editor would."""
    lines = (root / "params.yaml").read_text("utf-8").split("\n")
    for key, value in values.items():
        *sections, leaf = key.split(".")
        section = ""
        for number, line in enumerate(lines):
            if re.match(r"[a-z_]+:", line):
                section = line.split(":")[0]
            if re.match(rf"{'  ' * len(sections)}{leaf}: ", line) and (not sections or section == sections[0]):
                lines[number] = f"{'  ' * len(sections)}{leaf}: {value}"
                break
        else:
            raise KeyError(key)
    (root / "params.yaml").write_text("\n".join(lines), "utf-8")


def run(root: Path, *command: str) -> str:
    """Run a command in the clone and return what it printed."""
    environment = {**os.environ, **SILENT, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def ran(output: str) -> list[str]:
    """The stages that a `dvc repro` executed."""
    return re.findall(r"Running stage '([^']+)'", output)


def hashes(root: Path) -> dict[str, str]:
    """The hashes of everything that was built, run records apart."""
    lock = YAML(typ="safe").load((root / "dvc.lock").read_text("utf-8"))
    outs = [out for stage in lock["stages"].values() for out in stage["outs"]]
    return {out["path"]: out["md5"] for out in outs if "/runs/" not in out["path"]}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked and new files, committed, with small parameters, and built once."""
    root = tmp_path_factory.mktemp("clone")
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if name == "dvc.lock" or name.startswith("data/") or not (ROOT / name).exists():
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())
    set_params(root, SMALL)
    run(root, "git", "init", "-q")
    run(root, "git", "add", "-A")
    run(root, "git", "commit", "-qm", "Miniature")
    assert ran(run(root, "dvc", "repro")) == ["base", *(f"{stage}@marooned" for stage in STAGES)]
    return root


def test_second_build_runs_nothing(clone: Path) -> None:
    assert ran(run(clone, "dvc", "repro")) == []


def test_every_stage_left_its_metrics_and_its_run(clone: Path) -> None:
    for stage in STAGES:
        assert json.loads((clone / f"data/marooned/metrics/{stage}.json").read_text())
        record = json.loads((clone / f"data/marooned/runs/{stage}.json").read_text())
        assert record["run_id"] and record["stage_key"]
    assert (clone / "mlflow.db").exists()


def test_evaluation_speaks_of_every_policy_with_intervals(clone: Path) -> None:
    figures = json.loads((clone / "data/marooned/metrics/evaluate.json").read_text())
    for policy in ("base", "sft", "ppo", "final", "demonstrators"):
        row = figures[policy]
        assert row["episodes"] == 4 and row["turns"] > 0
        for name in ("invalid_rate", "success_rate", "mean_return", "traitor_success_rate"):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]


def test_merged_model_answers_with_plain_transformers(clone: Path) -> None:
    folder = clone / "data/marooned/merge"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "day 1"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.inference_mode():
        output = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    assert output.shape[1] > prompt["input_ids"].shape[1]


def test_corrections_read_back_as_legal_text(clone: Path) -> None:
    lines = (clone / "data/marooned/ppo/corrections.jsonl").read_text().splitlines()
    assert lines
    assert all("\nACTION: " in json.loads(line)["target"] for line in lines)


def test_forced_stages_give_the_same_bytes(clone: Path) -> None:
    before = hashes(clone)
    for stage in ("sft@marooned", "ppo@marooned"):
        assert ran(run(clone, "dvc", "repro", "-s", "-f", stage)) == [stage]
    assert hashes(clone) == before


def test_a_changed_parameter_rebuilds_what_depends_on_it_and_comes_back_from_the_cache(clone: Path) -> None:
    before = hashes(clone)
    set_params(clone, {"evaluate.episodes": 5})
    assert ran(run(clone, "dvc", "repro")) == ["evaluate@marooned"]
    shipped = re.search(r"\nppo:\n(?:  .*\n)*?  learning_rate: (\S+)", (clone / "params.yaml").read_text())
    assert shipped
    set_params(clone, {"evaluate.episodes": 4, "ppo.learning_rate": 2e-3})
    changed = ran(run(clone, "dvc", "repro"))
    assert changed == [f"{stage}@marooned" for stage in ("ppo", "correction_sft", "evaluate", "merge")]
    set_params(clone, {"ppo.learning_rate": shipped.group(1)})
    assert ran(run(clone, "dvc", "repro")) == []
    assert hashes(clone) == before
