"""The command as a person types it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from castaway.tools.cli.main import app
from tests.castaway.command import castaway, told
from tests.castaway.figures import EVALUATE, MOMENTS, REWARD_MODEL, save
from tests.castaway.tools.marooned.episodes import played
from tests.shipped import ROOT

SUCCESS = {"sft": "40.0 % (35.0 to 45.0)", "ppo": "75.0 % (70.0 to 80.0)", "final": "80.0 % (75.0 to 85.0)"}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder that looks like a repository after `dvc repro`."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    folder = tmp_path / "data" / "marooned"
    save(folder / "figures" / "evaluate.json", EVALUATE)
    save(folder / "figures" / "reward_model.json", REWARD_MODEL)
    save(folder / "metrics" / "seeds" / "2.json", {"seed": 2, "evaluate": EVALUATE, "reward_model": REWARD_MODEL})
    return tmp_path


def test_help_names_every_command_in_its_group() -> None:
    command = [sys.executable, "-m", "castaway.tools.cli.main"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr == "" and max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.count("...") == 1  # no line of help is cut
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert [name for name in group.commands if f"\n│ {name} " not in result.stdout] == []


def test_nothing_heavy_is_imported() -> None:
    heavy = "{'torch', 'transformers', 'datasets', 'dvc', 'prefect', 'mlflow', 'flows', 'stages'}"
    commands = (
        "[['params'], ['profile'], ['marooned', 'rules'], ['openspiel', 'id', '0'], "
        "['marooned', 'balance', '--episodes', '1'], ['--help']]"
    )
    code = f"""
import sys
from castaway.tools.cli.main import app
from tests.shipped import ROOT
for arguments in {commands}:
    try:
        app(arguments)
    except SystemExit as leaving:
        assert leaving.code == 0, leaving.code
print(sorted({heavy} & set(sys.modules)), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr == "[]\n"


def test_a_profile_is_shown_and_put_in_place(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    shown = castaway("profile", "demo", at=tmp_path).stdout
    assert "\ntasks.marooned: gone\n" in shown and "\nppo.steps: 22 -> " in shown
    assert "| ppo@tic_tac_toe " in shown and shown.endswith("It fits into this host.\n")
    written = told(castaway("profile", "demo", "--write", at=tmp_path))
    assert "is in no git repository; commit it, or give --force" in written
    assert "name the profile" in told(castaway("profile", "--write"))


def test_results_are_printed(built: Path) -> None:
    result = castaway("results", "marooned", at=built)
    assert result.exit_code == 0
    assert result.stdout.startswith("### marooned\n")
    assert "crew success (95 %)" in result.stdout and "80.0 % (75.0 to 85.0)" in result.stdout
    assert castaway("results", "--all", "--root", str(built)).stdout == result.stdout
    wrong = castaway("results", "maroned", at=built)
    assert "there is no evaluation of 'maroned'; did you mean marooned?" in told(wrong)


def test_results_are_written_between_the_markers(built: Path) -> None:
    (built / "README.md").write_text("<!-- headline -->\n<!-- /headline -->\n", encoding="utf-8")
    printed = castaway("results", at=built).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in printed.splitlines()[2:]]
    assert rows == [["marooned", policy, rate] for policy, rate in SUCCESS.items()]
    assert castaway("results", "--write", "README.md", at=built).exit_code == 0
    assert (built / "README.md").read_text("utf-8") == f"<!-- headline -->\n{printed}<!-- /headline -->\n"


def test_results_that_cannot_be_told(tmp_path: Path, built: Path) -> None:
    assert "does not exist; run from a clone" in told(castaway("results", "--root", str(tmp_path / "nowhere")))
    assert "x.md" in told(castaway("results", "--all", "--write", "x.md", at=built))
    (built / "x.md").write_text("no markers\n", encoding="utf-8")
    assert "<!-- results -->" in told(castaway("results", "--all", "--write", "x.md", at=built))
    assert (built / "x.md").read_text("utf-8") == "no markers\n"
    (built / "data/marooned/figures/evaluate.json").unlink()
    for more in ([], ["--all"]):
        assert "dvc repro" in told(castaway("results", "--root", str(built), *more))


def test_a_replay_is_written(tmp_path: Path) -> None:
    path = tmp_path / "3.jsonl"
    save(path, "".join(json.dumps(row) + "\n" for row in played(3, "crew", {})))
    made = tmp_path / "scratch" / "3.html"
    assert castaway("replay", str(path), "--root", str(tmp_path)).stdout == f"{made}\n"
    assert made.read_text("utf-8").startswith("<!doctype html>") and sorted(tmp_path.iterdir()) == [path, made.parent]
    assert castaway("replay", str(path), "--to", str(tmp_path / "x.html")).exit_code == 0
    assert (tmp_path / "x.html").read_bytes() == made.read_bytes()
    assert "cannot be written" in told(castaway("replay", str(path), "--to", str(path / "x.html")))
    path.write_text("".join(json.dumps(row) + "\n" for row in MOMENTS), encoding="utf-8")
    # Of another game: without an island.
    assert castaway("replay", str(path), "--root", str(tmp_path)).exit_code == 0
    assert "arrow keys" in made.read_text("utf-8")
    assert "Day 1, turn 2\n  Alice (colonist): REASONING: go" in castaway("episode", str(path)).stdout
    assert "nowhere" in told(castaway("episode", str(tmp_path / "nowhere")))
    assert "saved episode" in told(castaway("episode", str(ROOT / "README.md")))


@pytest.mark.parametrize("arguments", [["frobnicate"], ["params", "a", "b"], ["results", "--nope"], ["episode"]])
def test_what_is_mistyped_is_told_in_one_line(arguments: list[str]) -> None:
    told(castaway(*arguments))
