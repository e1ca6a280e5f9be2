"""A judge that is trained, served by vLLM and asked: the profile `teacher` in small, on a random model of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from castaway.datasets.jsonl import CORRECTIONS, DEMONSTRATIONS, read_rows, reply_text
from castaway.processes.servers import free_port
from castaway.tasks.registry import load_task, read_params
from castaway.tasks.reply import parse_reply
from castaway.teacher.protocol import parse_answer
from tests.castaway.rl.small import ROOT
from tests.families import write_family
from tests.flows.test_profile import SMALLER
from tests.miniature import GIVEN, STAGES, commit, copy_tree, edited, run, set_params

PROFILE = ROOT / "profiles" / "teacher.yaml"
OWN: dict[str, object] = {
    **SMALLER,
    "threads": 1,
    "tasks.judge.dataset.episodes": 40,
    "tasks.judge.dataset.demonstrations": 16,
    "bases.novice.text.openspiel.episodes": 300,
    "dataset.episodes": 200,
    "dataset.demonstrations": 480,
    "ppo.rollout.episodes_per_step": 2,
    "teacher.answer_tokens": 700,
}
"""The student is trained until it plays legal moves, for of the others a judge that knows nothing judges none: it comes
to the end of an answer only when that has the greatest length."""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The copy in which the profile was built, and what was printed."""
    root = tmp_path_factory.mktemp("judged")
    copy_tree(root)
    (root / ".venv-vllm").symlink_to(ROOT / ".venv-vllm")
    write_family("llama", root / "model", questions())
    small = root / "small"
    small.mkdir()
    (small / "params.yaml").write_bytes(PROFILE.read_bytes())
    with edited(small / "params.yaml") as params:
        params["bases"]["smollm2"] = {**GIVEN, "path": str(root / "model"), "code": str(root / "model")}
        params["teacher"]["url"] = f"http://127.0.0.1:{free_port()}/v1"
    set_params(small, OWN)
    commit(root)
    return root / "scratch/params", run(root, "python", "-m", "flows", "profile", "small/params.yaml")


def questions() -> list[str]:
    """What the tokenizer of the judge is trained on."""
    params = read_params(PROFILE)
    task = load_task("judge", params.tasks["judge"].game)
    environment, texts = task.make(), list[str]()
    for task_id in task.training_ids()[:20]:
        environment.reset(task_id, task.scripted_seat)
        while not environment.done:
            (prompt,) = environment.prompts()
            texts += [message["content"] for message in prompt.messages] + [task.expert(prompt).action]
            environment.step({})
    return texts


def test_one_command_trains_the_judge_and_then_the_run_that_it_teaches(output: tuple[Path, str]) -> None:
    root, printed = output
    built = re.findall(r"^\d+/11  (\S+)  Ran ", printed, re.MULTILINE)
    own = ["base@novice", *(f"{stage}@tic_tac_toe" for stage in STAGES)]
    assert sorted(built) == sorted([*own, "base@smollm2", "dataset@judge", "sft@judge"])
    assert built.index("sft@judge") < built.index("ppo@tic_tac_toe")
    assert printed.count("starting vLLM for ") == 1, "PPO alone asks it"
    learned = read_rows(root / "data/judge/dataset/demonstrations.jsonl", DEMONSTRATIONS)
    assert all(parse_answer(reply_text(row["completion"])) for row in learned)


def test_what_it_taught_was_checked_by_the_rules(output: tuple[Path, str]) -> None:
    root, _ = output
    folder = root / "data/tic_tac_toe/ppo"
    report: dict[str, Any] = json.loads((folder / "agreement.json").read_text("utf-8"))
    assert report["judged_by"]["smollm2-judge"] > 0, report
    for row in read_rows(folder / "corrections.jsonl", CORRECTIONS):
        menu = re.findall(r"(\d+): ", row["prompt"][-1]["content"].rpartition("moves ")[2])
        assert parse_reply(reply_text(row["chosen"])).action in menu
        assert row["source"] in report["judged_by"] and row["penalty"] < 0
