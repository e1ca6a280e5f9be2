"""Profiles are listed, compared, and put in place without losing what is not in git."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.profiles.configure import ask
from castaway.tools.profiles.difference import difference
from castaway.tools.profiles.files import FOLDER, about, listing, profile_path, put_in_place
from tests.miniature import edited, run

ROOT = Path(__file__).parents[4]
PROFILES = sorted(path.stem for path in (ROOT / FOLDER).glob("*.yaml"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with nothing but parameters and profiles, committed."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    run(tmp_path, "git", "init", "-q")
    run(tmp_path, "git", "add", "-A")
    run(tmp_path, "git", "commit", "-qm", "Everything")
    return tmp_path


def test_each_profile_has_a_line(clone: Path) -> None:
    lines = listing(clone).splitlines()
    assert [line.split()[0] for line in lines] == PROFILES
    assert lines[PROFILES.index("qwen2.5-3b")].split()[1] == "cuda"
    assert all(about(ROOT / FOLDER / f"{name}.yaml") in line for name, line in zip(PROFILES, lines, strict=True))


def test_nothing_differs_from_itself_and_every_change_is_named(clone: Path) -> None:
    before = read_params(clone / "params.yaml")
    assert difference(before, before) == ""
    with edited(clone / "params.yaml") as params:
        params["seed"] = 7
        params["ppo"]["target_kl"] = 0.5
        params["ppo"]["curriculum"] = False
        params["tasks"]["openspiel"]["ppo"]["steps"] = 99
        params["tasks"]["again"] = params["tasks"].pop("strictbot")
        del params["tasks"]["marooned"]["dataset"]
    assert difference(before, read_params(clone / "params.yaml")).splitlines() == [
        "tasks:",
        "  marooned.dataset: {episodes: 240, demonstrations: 12000, balanced: true} -> not set",
        "  openspiel.ppo.steps: 36 -> 99",
        "  strictbot: gone",
        "  again: added (task strictbot, base answers)",
        "seed: 1 -> 7",
        "ppo:",
        "  curriculum: true -> false",
        "  target_kl: null -> 0.5",
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_put_in_place_with_its_comments(clone: Path, name: str) -> None:
    told = put_in_place(profile_path(name, clone), clone, force=False)
    assert (clone / "params.yaml").read_bytes() == (ROOT / FOLDER / f"{name}.yaml").read_bytes()
    assert "python -m flows closure --write" in told and "dvc repro" in told


def test_what_git_does_not_have_is_not_overwritten(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = clone / "params.yaml"
    path.write_text(path.read_text("utf-8") + "# mine\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(CastawayError, match="has changes that are not committed; commit it, or give --force"):
        put_in_place(profile_path("demo", clone), clone, force=False)
    assert path.read_bytes() == before
    put_in_place(profile_path("demo", clone), clone, force=True)
    assert path.read_bytes() == (clone / FOLDER / "demo.yaml").read_bytes()
    bare = tmp_path_factory.mktemp("bare")
    shutil.copy(ROOT / "params.yaml", bare)
    with pytest.raises(CastawayError, match="is in no git repository"):
        put_in_place(profile_path("demo", clone), bare, force=False)


def test_an_invalid_or_missing_profile_changes_nothing(clone: Path) -> None:
    before = (clone / "params.yaml").read_bytes()
    (clone / FOLDER / "wrong.yaml").write_text("seed: 1\n", encoding="utf-8")
    with pytest.raises(CastawayError, match=r"wrong\.yaml: "):
        put_in_place(profile_path("wrong", clone), clone, force=True)
    with pytest.raises(CastawayError, match=r"none.yaml does not exist; name a profile \(demo, llama3.1-8b, "):
        profile_path("none", clone)
    assert (clone / "params.yaml").read_bytes() == before


def answered(root: Path, *lines: str) -> tuple[str, list[str]]:
    """What `castaway configure` says at the end, and its questions."""
    asked: list[str] = []
    told = ask(root, False, io.StringIO("".join(f"{line}\n" for line in lines)).readline, asked.append)
    return told, asked


def test_a_profile_is_made_from_answers(clone: Path) -> None:
    told, asked = answered(clone, "cpu", "smollm2", "strictbot, openspiel", "http://127.0.0.1:9/v1", "3.6", "2", "mine")
    assert [question.split()[0] for question in asked][:3] == ["accelerator", "model", "tasks,"] and len(asked) == 7
    params = read_params(clone / FOLDER / "mine.yaml")
    assert set(params.tasks) == {"strictbot", "openspiel"} and set(params.bases) == {"smollm2"}
    assert {one.base for one in params.tasks.values()} == {"smollm2"}
    assert (params.teacher.kind, params.teacher.url, params.device) == ("openai", "http://127.0.0.1:9/v1", "cpu")
    template = read_params(clone / FOLDER / "smollm2.yaml")
    assert params.ppo.tokens_per_pass < template.ppo.tokens_per_pass and params.ppo.steps < template.ppo.steps
    text = (clone / FOLDER / "mine.yaml").read_text("utf-8")
    assert "Nobody has run it" in about(clone / FOLDER / "mine.yaml") + text and "# or openai: the model below" in text
    assert "castaway profile mine" in told
    assert (clone / "params.yaml").read_bytes() == (ROOT / "params.yaml").read_bytes()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["tpu"], "accelerator is 'tpu', expected one of cpu, cuda, mi300x; nothing was written"),
        (["cpu", "smollm2"], "the input ended at the question 'tasks"),
        (["cpu", "smollm2", "chess", "", "", "", "mine"], "tasks is 'chess', expected some of"),
        (["cpu", "smollm2", "", "ftp", "", "", "mine"], "teacher is 'ftp', expected rules or a URL"),
        (["cpu", "smollm2", "", "", "much"], "memory in GB is 'much', expected a number above 0"),
        (["cpu", "smollm2", "openspiel", "", "0.3", "", "mine"], "GB even with small passes, more than 0.3 GB; "),
        (["cpu", "smollm2", "", "", "", "", "demo"], "demo.yaml exists; choose another name, or give --force"),
    ],
)
def test_an_answer_that_cannot_be_used_writes_nothing(clone: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(CastawayError) as raised:
        answered(clone, *lines)
    assert problem in str(raised.value) and "\n" not in str(raised.value)
    assert sorted(path.stem for path in (clone / FOLDER).glob("*.yaml")) == PROFILES
