"""SFT on the expert: what is changed for it, and that it is trained and played as the run's own SFT policy is."""

import json
from pathlib import Path

import pytest

from benchmarks import imitation
from castaway.errors import CastawayError
from castaway.metrics.comparisons import imitation_table
from castaway.tasks.registry import read_params
from tests.castaway.figures import EVALUATE
from tests.miniature import make_clone


def test_only_the_demonstrations_are_others(tmp_path: Path) -> None:
    make_clone(tmp_path)
    path = tmp_path / "params.yaml"
    before = read_params(path)
    own = before.for_run("strictbot").dataset
    wanted = imitation.learn_from_expert(path, "strictbot")
    after = read_params(path)
    assert wanted == own.demonstrations + own.pairs
    changed = after.for_run("strictbot").dataset
    assert (changed.demonstrations, changed.carelessness) == (wanted, 0.0)
    assert changed.episodes * own.demonstrations >= 2 * own.episodes * wanted
    same = own.model_copy(update={"demonstrations": 0, "episodes": 0, "carelessness": 0.0})
    assert changed.model_copy(update={"demonstrations": 0, "episodes": 0, "carelessness": 0.0}) == same
    assert after.for_run("strictbot").sft == before.for_run("strictbot").sft
    assert after.for_run("marooned").dataset == before.for_run("marooned").dataset


def test_its_context_is_that_of_the_run(tmp_path: Path) -> None:
    make_clone(tmp_path)
    context = imitation.context_of(tmp_path, "openspiel")
    assert context.folder("sft") == tmp_path / "data" / "openspiel" / "sft"
    assert context.folder("base").parent.name == read_params(tmp_path / "params.yaml").tasks["openspiel"].base


def test_a_run_that_there_is_not(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitation, "require_commit", lambda: None)
    assert imitation.main(["--task", "chess"]) == 2
    assert "has no run chess" in capsys.readouterr().err


def test_a_row_for_each_seed_says_what_it_is(tmp_path: Path) -> None:
    found = {**EVALUATE["sft"], "demonstrations": 7500, "block": 4, "revision": "abc1234"}
    for seed in (2, 1):
        imitation.save(tmp_path, "marooned", seed, {**found, "block": 3 + seed})
    saved = json.loads((tmp_path / "data/marooned/metrics/imitation.json").read_text("utf-8"))
    text = imitation_table(saved, "crew")
    assert text.startswith("SFT on 7500 of the expert's own moves")
    assert "at commit abc1234" in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[-2:]]
    assert [(row[0], row[-1]) for row in rows] == [("1", "4"), ("2", "5")]
    with pytest.raises(CastawayError, match="block is missing"):
        imitation_table({"1": EVALUATE["sft"]}, "crew")
