"""Profiles are listed, compared, and put in place without losing what is not in git."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import Result

from castaway.config.errors import CastawayError
from castaway.processes.hardware import GIBIBYTE
from castaway.tasks.registry import read_params
from castaway.tools.memory import needs
from castaway.tools.profiles import FOLDER, about, difference, listing, profile_path, put_in_place
from tests.castaway.command import castaway
from tests.miniature import commit, edited
from tests.shipped import ROOT

PROFILES = sorted(path.stem for path in (ROOT / FOLDER).glob("*.yaml"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with nothing but parameters and profiles, committed."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    commit(tmp_path)
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
        params["ppo"]["kl"]["target_kl"] = 0.5
        params["ppo"]["curriculum"] = False
        params["tasks"]["openspiel"]["ppo"]["steps"] = 99
        params["tasks"]["again"] = params["tasks"].pop("strictbot")
        params["tasks"]["marooned"]["dataset"] = {"episodes": 241}
    assert difference(before, read_params(clone / "params.yaml")).splitlines() == [
        "ppo.curriculum: true -> false",
        "ppo.kl.target_kl: null -> 0.5",
        "seed: 1 -> 7",
        "tasks.again: added",
        "tasks.marooned.dataset.balanced: true -> not set",
        "tasks.marooned.dataset.demonstrations: 12000 -> not set",
        "tasks.marooned.dataset.episodes: 240 -> 241",
        "tasks.openspiel.ppo.steps: 36 -> 99",
        "tasks.strictbot: gone",
    ]


def test_what_git_does_not_have_is_not_overwritten(clone: Path) -> None:
    path = clone / "params.yaml"
    path.write_text(path.read_text("utf-8") + "# mine\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(CastawayError, match="has changes that are not committed; commit it, or give --force"):
        put_in_place(profile_path("demo", clone), clone, force=False)
    assert path.read_bytes() == before
    told = put_in_place(profile_path("demo", clone), clone, force=True)
    assert "castaway params" in told and "dvc repro" in told
    assert path.read_bytes() == (clone / FOLDER / "demo.yaml").read_bytes()


def test_an_invalid_or_missing_profile_changes_nothing(clone: Path) -> None:
    before = (clone / "params.yaml").read_bytes()
    (clone / FOLDER / "wrong.yaml").write_text("seed: 1\n", encoding="utf-8")
    with pytest.raises(CastawayError, match=r"wrong\.yaml: "):
        put_in_place(profile_path("wrong", clone), clone, force=True)
    with pytest.raises(
        CastawayError, match=r"no profile or file of parameters 'none'; expected one of classic, demo, llama3.1-8b, "
    ):
        profile_path("none", clone)
    assert (clone / "params.yaml").read_bytes() == before


def configured(root: Path, *lines: str) -> Result:
    return castaway("configure", at=root, typed="".join(f"{line}\n" for line in lines))


def test_a_profile_is_made_from_answers(clone: Path) -> None:
    done = configured(clone, "cpu", "smollm2", "strictbot, openspiel", "http://127.0.0.1:9/v1", "3.6", "mine")
    assert done.exit_code == 0 and "castaway profile mine" in done.stdout
    params = read_params(clone / FOLDER / "mine.yaml")
    assert set(params.tasks) == {"strictbot", "openspiel"} and set(params.bases) == {"smollm2"}
    assert {one.base for one in params.tasks.values()} == {"smollm2"}
    assert (params.teacher.kind, params.teacher.url, params.device) == ("openai", "http://127.0.0.1:9/v1", "cpu")
    template = read_params(clone / FOLDER / "smollm2.yaml")
    assert params.ppo.tokens_per_pass < template.ppo.tokens_per_pass
    assert all(need.host < 3.6 * GIBIBYTE for need in needs(params, clone))
    text = (clone / FOLDER / "mine.yaml").read_text("utf-8")
    assert "Nobody has run it" in text and "# or openai: the model below" in text
    assert (clone / "params.yaml").read_bytes() == (ROOT / "params.yaml").read_bytes()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["tpu"], "accelerator is 'tpu', expected one of cpu, cuda, mi300x, mps; nothing was written"),
        (["cpu", "smollm2", "chess", "", "", "mine"], "tasks is 'chess', expected some of"),
        (["cpu", "smollm2", "openspiel", "", "0.3", "mine"], "GiB even with small passes, more than 0.3 GiB; "),
        (["cpu", "smollm2"], ""),  # the input ends
    ],
)
def test_an_answer_that_cannot_be_used_writes_nothing(clone: Path, lines: list[str], problem: str) -> None:
    done = configured(clone, *lines)
    assert done.exit_code != 0 and problem in done.stderr
    assert sorted(path.stem for path in (clone / FOLDER).glob("*.yaml")) == PROFILES
