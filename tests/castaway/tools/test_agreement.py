"""The agreement of a judge with the rules: counted on turns that it was not trained on, from its first answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import DEMONSTRATIONS, demonstration, write_rows
from castaway.tasks.environment import HELD_OUT_START, Prompt
from castaway.tasks.registry import read_params
from castaway.teacher.protocol import parse_answer
from castaway.tools.agreement import further_turns, judge_of
from tests.castaway.command import castaway
from tests.shipped import PARAMS, ROOT

PROFILE = ROOT / "profiles" / "teacher.yaml"
TURNS = 40


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder with the parameters, and demonstrations that hold the first of the further turns."""
    shutil.copy(PROFILE, tmp_path / "params.yaml")
    save(tmp_path, [])
    save(tmp_path, further_turns(read_params(PROFILE), "judge", 3, tmp_path))
    return tmp_path


def save(root: Path, known: list[Prompt]) -> None:
    folder = root / "data/judge/dataset"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [demonstration(prompt.messages, "{}", prompt.role) for prompt in known]
    write_rows(folder / "demonstrations.jsonl", rows, DEMONSTRATIONS)


def test_the_turns_are_new_to_the_judge(built: Path) -> None:
    params = read_params(PROFILE)
    asked = [prompt.messages[-1]["content"] for prompt in further_turns(params, "judge", TURNS, built)]
    save(built, [])
    every = [prompt.messages[-1]["content"] for prompt in further_turns(params, "judge", TURNS + 3, built)]
    assert asked == every[3:] and len(set(every)) == len(every)
    assert min(judge_of(params, "judge").training_ids()) < HELD_OUT_START
    with pytest.raises(CastawayError, match="marooned is a run of the task marooned, and not of judge"):
        judge_of(PARAMS, "marooned")


def test_each_model_is_measured_and_what_it_got_wrong_is_kept(built: Path, url: str, tmp_path: Path) -> None:
    models = ("good", "yes", "prose")
    named = [argument for model in models for argument in ("--model", model)]
    file = tmp_path / "agreement.json"
    done = castaway(
        "teacher", "measure", "--root", str(built), "--url", url, "--to", str(file), "--turns", str(TURNS), *named
    )
    assert done.exit_code == 0, done.stderr
    good, yes, prose = json.loads(file.read_text("utf-8"))
    turns = further_turns(read_params(PROFILE), "judge", TURNS, built)
    illegal = [prompt for prompt in turns if not prompt.observation.verdict.valid]
    assert {one["turns"] for one in (good, yes, prose)} == {TURNS} and good["illegal_replies"] == len(illegal)
    assert good["validity"] == 1.0 and good["readable"] == TURNS
    # It corrects with the last legal action, whatever was meant.
    last = [parse_answer(one.observation.answer).action for one in illegal]
    menus = [one.observation.attempt.prompt.observation for one in illegal]
    legal = judge_of(read_params(PROFILE), "judge").make().judged_rules.legal_actions
    meant = sum(action == legal(menu)[-1] for action, menu in zip(last, menus, strict=True))
    assert good["correction"] == round(meant / len(illegal), 6)
    assert yes["validity"] == round(1 - len(illegal) / TURNS, 6)
    assert yes["disputes"]["calls an illegal move legal"]["count"] == len(illegal)
    assert prose["readable"] == 0 and prose["verdict"] == 0.0 and prose["disputes"] == {}
    assert "| prose" in done.stdout and "0.0 % (0.0 to " in done.stdout
