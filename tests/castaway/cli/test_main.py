"""The command as a person types it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from castaway.cli.main import app
from tests.castaway.figures import EVALUATE, MOMENTS, REWARD_MODEL, save
from tests.castaway.tools.marooned.replay.episodes import played
from tests.miniature import edited

ROOT = Path(__file__).parents[3]


SUCCESS = {"sft": "40.0 % (35.0 to 45.0)", "ppo": "75.0 % (70.0 to 80.0)", "final": "80.0 % (75.0 to 85.0)"}


def castaway(*arguments: str, at: Path = ROOT, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "castaway.cli.main", *arguments],
        cwd=at,
        input=typed,
        env={"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def told(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that a mistake is told in."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder that looks like a repository after `dvc repro`."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    metrics = tmp_path / "data" / "marooned" / "metrics"
    save(metrics / "evaluate.json", EVALUATE)
    save(metrics / "reward_model.json", REWARD_MODEL)
    save(metrics / "seeds" / "2.json", {"seed": 2, "evaluate": EVALUATE, "reward_model": REWARD_MODEL})
    return tmp_path


def test_help_names_every_command() -> None:
    result = castaway("--help")
    assert result.returncode == 0 and result.stderr == ""
    for command in (
        "params",
        "results",
        "chat",
        "episode",
        "task",
        "replay",
        "images",
        "balance",
        "openenv",
        "play",
        "profile",
        "configure",
        "doctor",
        "lineage",
        "diff",
        "compare",
        "report",
        "rules",
    ):
        assert f"\n  {command} " in result.stdout
    assert castaway().stdout == result.stdout


def test_a_group_without_a_command_shows_its_help() -> None:
    for group, command in (("task", "check"), ("teacher", "serve")):
        result = castaway(group)
        assert (result.returncode, result.stderr) == (0, "")
        assert f"\n  {command} " in result.stdout


def test_nothing_heavy_is_imported() -> None:
    heavy = "{'torch', 'transformers', 'datasets', 'dvc', 'prefect', 'mlflow', 'flows', 'stages', 'pandas'}"
    commands = "[['params'], ['profile'], ['rules'], ['task', 'id', '0'], ['balance', '--episodes', '1'], ['--help']]"
    code = f"""
import sys
from castaway.cli.main import app
for arguments in {commands}:
    try:
        app(arguments)
    except SystemExit as leaving:
        assert leaving.code == 0, leaving.code
print(sorted({heavy} & set(sys.modules)), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr == "[]\n"


def test_params_are_right_or_the_key_is_named(tmp_path: Path) -> None:
    assert castaway("params").stdout == "OK\n"
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    assert castaway("params", at=tmp_path).stdout == "OK\n"
    path = tmp_path / "params.yaml"
    path.write_text(path.read_text("utf-8").replace("\nseed:", "\nsead:", 1), encoding="utf-8")
    assert "sead is unknown, did you mean seed?" in told(castaway("params", at=tmp_path))
    assert "does not exist" in told(castaway("params", str(tmp_path / "nowhere.yaml")))


def test_a_profile_is_shown_and_put_in_place(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    assert castaway("profile").stdout == castaway("profile", at=tmp_path).stdout
    shown = castaway("profile", "demo", at=tmp_path).stdout
    assert "tasks:\n  marooned: gone\n" in shown and "ppo:\n  steps: 22 -> 9\n" in shown
    assert "| ppo@strictbot " in shown and shown.endswith("It fits into this host.\n")
    assert "is in no git repository; commit it, or give --force" in told(
        castaway("profile", "demo", "--write", at=tmp_path)
    )
    assert "dvc repro" in castaway("profile", "demo", "--write", "--force", at=tmp_path).stdout
    assert (tmp_path / "params.yaml").read_bytes() == (ROOT / "profiles/demo.yaml").read_bytes()
    assert castaway("profile", "demo", at=tmp_path).stdout.startswith("Changes of params.yaml (old -> new):\n\nnothing")
    assert "name the profile" in told(castaway("profile", "--write"))
    assert "the input ended at the question 'accelerator" in castaway("configure", at=tmp_path).stderr
    assert "the input ended at the question 'tasks" in castaway("configure", at=tmp_path, typed="cpu\nsmollm2\n").stderr


def test_results_are_printed(built: Path) -> None:
    result = castaway("results", at=built)
    assert result.returncode == 0
    assert result.stdout.startswith("### marooned\n")
    assert "crew success (95 %)" in result.stdout and "80.0 % (75.0 to 85.0)" in result.stdout
    assert castaway("results", "--root", str(built)).stdout == result.stdout


def test_results_are_written_between_the_markers(built: Path) -> None:
    readme = built / "README.md"
    readme.write_text("# A\n<!-- results -->\n<!-- /results -->\nend\n", encoding="utf-8")
    assert castaway("results", "--write", "README.md", at=built).returncode == 0
    text = readme.read_text("utf-8")
    assert text.startswith("# A\n<!-- results -->\n### marooned\n") and text.endswith("<!-- /results -->\nend\n")
    assert castaway("results", at=built).stdout.strip() in text
    castaway("results", "--write", "README.md", at=built)
    assert readme.read_text("utf-8") == text


def test_the_headline_is_one_table_between_markers_of_its_own(built: Path) -> None:
    (built / "README.md").write_text("<!-- headline -->\n<!-- /headline -->\n", encoding="utf-8")
    printed = castaway("results", "--headline", at=built).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in printed.splitlines()[2:]]
    assert rows == [["marooned", policy, rate] for policy, rate in SUCCESS.items()]
    assert castaway("results", "--headline", "--write", "README.md", at=built).returncode == 0
    assert (built / "README.md").read_text("utf-8") == f"<!-- headline -->\n{printed}<!-- /headline -->\n"


def test_results_that_cannot_be_told(tmp_path: Path, built: Path) -> None:
    assert "does not exist; run from a clone" in told(castaway("results", "--root", str(tmp_path / "nowhere")))
    unbuilt = tmp_path / "unbuilt"
    unbuilt.mkdir()
    shutil.copy(ROOT / "params.yaml", unbuilt)
    for more in ([], ["--headline"]):
        assert "dvc repro" in told(castaway("results", "--root", str(unbuilt), *more))
    assert "x.md" in told(castaway("results", "--write", "x.md", at=built))
    (built / "x.md").write_text("no markers\n", encoding="utf-8")
    assert "<!-- results -->" in told(castaway("results", "--write", "x.md", at=built))
    assert (built / "x.md").read_text("utf-8") == "no markers\n"
    (built / "data" / "marooned" / "metrics" / "evaluate.json").write_text("{", encoding="utf-8")
    assert "evaluate.json" in told(castaway("results", at=built))


def test_an_episode_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in MOMENTS), encoding="utf-8")
    result = castaway("episode", str(path))
    assert result.returncode == 0 and "Day 1, turn 2\n  Alice (colonist): REASONING: go" in result.stdout
    assert "nowhere" in told(castaway("episode", str(tmp_path / "nowhere")))
    assert "saved episode" in told(castaway("episode", str(ROOT / "README.md")))


def test_a_replay_is_written(tmp_path: Path) -> None:
    path = tmp_path / "3.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in played(3, "crew", {})), encoding="utf-8")
    made = tmp_path / "scratch" / "3.html"
    assert castaway("replay", str(path), "--root", str(tmp_path)).stdout == f"{made}\n"
    assert made.read_text("utf-8").startswith("<!doctype html>") and sorted(tmp_path.iterdir()) == [path, made.parent]
    assert castaway("replay", str(path), "--to", str(tmp_path / "x.html")).returncode == 0
    assert (tmp_path / "x.html").read_bytes() == made.read_bytes()
    assert "cannot be written" in told(castaway("replay", str(path), "--to", str(path / "x.html")))
    path.write_text("".join(json.dumps(row) + "\n" for row in MOMENTS), encoding="utf-8")
    # Of another game: without an island.
    assert castaway("replay", str(path), "--root", str(tmp_path)).returncode == 0
    assert "arrow keys" in made.read_text("utf-8")


def test_a_balance_is_printed() -> None:
    result = castaway("balance", "--scenario", "skiff", "--episodes", "2")
    assert result.returncode == 0 and "| workers, saboteur" in result.stdout
    assert "classic, skiff" in told(castaway("balance", "--scenario", "atlantis", "--episodes", "1"))


def test_rules_are_shown() -> None:
    result = castaway("rules", "skiff")
    assert result.returncode == 0 and "| constant" in result.stdout and "classic" not in result.stdout
    assert "classic, skiff" in told(castaway("rules", "atlantis"))


@pytest.mark.parametrize("arguments", [["frobnicate"], ["params", "a", "b"], ["results", "--nope"], ["episode"]])
def test_what_is_mistyped_is_told_in_one_line(arguments: list[str]) -> None:
    told(castaway(*arguments))


def test_a_run_that_was_not_built_has_no_results_and_another_of_the_same_task_has_its_own(built: Path) -> None:
    with edited(built / "params.yaml") as params:
        params["tasks"]["other"] = {**params["tasks"]["marooned"]}
    save(built / "data" / "other" / "metrics" / "evaluate.json", EVALUATE)
    printed = castaway("results", at=built).stdout
    assert [line for line in printed.splitlines() if line.startswith("###")] == ["### marooned", "### other"]
    assert printed.count("crew success (95 %)") == 2


def test_a_task_id_is_explained() -> None:
    result = castaway("task", "id", "1123456789")
    assert result.returncode == 0
    assert result.stdout.split("\n") == [
        "task id:    1123456789, held out (split 1)",
        "game:       clobber (9): Move one of your marks onto a neighbouring mark of the other side, which is taken; "
        "who cannot move loses.",
        "variant:    3x4 (0)",
        "parameters: rows=3, columns=4",
        "seat:       x (1 of 2, counted from 0)",
        "chance:     seed 8806",
        "opponents:  seed 102; the seat of the episode sets their kind: random, mcts-N or self",
        "base rate:  50.5 % success for a random player among random ones",
        "",
    ]
    assert "training (split 0)" in castaway("task", "id", "0").stdout
    assert "there is no episode -1" in told(castaway("task", "id", "--", "-1"))
    told(castaway("task", "id", "tic_tac_toe"))


def commands(group: typer.core.TyperGroup, name: str = "castaway") -> Iterator[tuple[str, str]]:
    """Each command, with the text of its help."""
    for word, one in group.commands.items():
        if isinstance(one, typer.core.TyperGroup):
            yield from commands(one, f"{name} {word}")
        else:
            yield f"{name} {word}", one.help or ""


def test_every_command_shows_an_example_of_itself() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found = dict(commands(group))
    assert len(found) > 20
    assert [name for name, text in found.items() if f"Example: `{name}" not in text] == []
