"""What is kept of a profile's run."""

import json
from pathlib import Path

import pytest

from benchmarks import profiles
from benchmarks.profiles import keep, with_seed
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params

ROOT = profiles.ROOT


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_figures_are_kept_and_weights_are_not(tmp_path: Path) -> None:
    built, kept = tmp_path / "scratch" / "small", tmp_path / "kept" / "small"
    write(kept / "data" / "one" / "metrics" / "gone.json", "{}")
    others = {name: "of another build" for name in ("data/two/metrics/evaluate.json", "data/one/metrics/seeds/2.json")}
    for name, text in others.items():
        write(kept / name, text)
    names = ["params.yaml", "data/one/metrics/evaluate.json", "data/one/runs/sft.json", "data/base/metrics/base.json"]
    for name in (*names, "data/one/merge/weights", "data/begun/metrics/sft.json"):
        write(built / name, name)
    keep(built, kept)
    found = {str(path.relative_to(kept)): path.read_text("utf-8") for path in kept.rglob("*") if path.is_file()}
    assert found == {**{name: name for name in names}, **others}


def test_without_an_evaluation_nothing_is_deleted(tmp_path: Path) -> None:
    write(tmp_path / "kept" / "params.yaml", "kept")
    with pytest.raises(CastawayError, match="has no evaluation; build it with `python -m flows profile built`"):
        keep(tmp_path / "built", tmp_path / "kept")
    assert (tmp_path / "kept" / "params.yaml").read_text("utf-8") == "kept"


def test_another_seed_of_a_profile_differs_in_seed_and_block_alone(tmp_path: Path) -> None:
    profile = ROOT / "profiles" / "sizes.yaml"
    with_seed(profile, tmp_path / "sizes-3.yaml", "openspiel", 3, 21)
    before, after = (read_params(path).model_dump() for path in (profile, tmp_path / "sizes-3.yaml"))
    assert (after["seed"], after["tasks"]["openspiel"]["overrides"]["evaluate"]["block"]) == (3, 21)
    before["seed"] = 3
    before["tasks"]["openspiel"]["overrides"]["evaluate"]["block"] = 21
    assert after == before


STAND_IN = """\
import json, pathlib, sys

place = pathlib.Path("scratch", pathlib.Path(sys.argv[2]).stem, "data", "openspiel", "metrics")
place.mkdir(parents=True)
for stage in ("evaluate", "reward_model"):
    (place / f"{stage}.json").write_text(json.dumps({"command": sys.argv[1:]}))
"""
"""In place of `python -m flows`, whose build takes three quarters of an hour: it only writes what a build leaves."""


def test_the_seeds_of_a_profile_are_saved_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "ROOT", tmp_path)
    write(tmp_path / "flows.py", STAND_IN)
    write(tmp_path / "profiles" / "sizes.yaml", (ROOT / "profiles" / "sizes.yaml").read_text("utf-8"))
    kept = tmp_path / "kept"
    profiles.build("sizes", "openspiel", 2, None, kept)
    record = json.loads((kept / "data" / "openspiel" / "metrics" / "seeds" / "2.json").read_text("utf-8"))
    assert record["seed"] == 2
    command = ["profile", str(tmp_path / "scratch" / "sizes-2.yaml"), "evaluate@openspiel"]
    assert record["evaluate"] == record["reward_model"] == {"command": command}
    assert read_params(tmp_path / "scratch" / "sizes-2.yaml").seed == 2

    write(tmp_path / "flows.py", "raise SystemExit(3)")
    with pytest.raises(CastawayError, match="seed 3 of sizes could not be built"):
        profiles.build("sizes", "openspiel", 3, None, kept)


def test_seeds_need_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        profiles.main(["sizes", "--seeds", "2"])
    assert "--seeds and --task go together" in capsys.readouterr().err
