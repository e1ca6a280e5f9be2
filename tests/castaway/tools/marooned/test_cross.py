"""The cross table of a built run: all players meet, in the same games each time, and every turn is counted."""

import json
from pathlib import Path

import pytest

from castaway.bases.tiny import new_model
from castaway.config.sections import LoraParams
from castaway.datasets.jsonl import DEMONSTRATIONS, demonstration, write_rows
from castaway.models.policy import load_model, new_adapter, save_adapter
from castaway.models.training import seed_everything
from castaway.tools.marooned.cross import INVALID, PLAYERS, cross_table
from tests.castaway.command import castaway, refused
from tests.castaway.rl.small import small_base, student
from tests.shipped import ROOT


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped parameters, with an untrained model in the place of the run's."""
    root = tmp_path_factory.mktemp("run")
    (root / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    base, run = root / "data/island/base", root / "data/marooned"
    seed_everything(1, 1)
    _, tokenizer = student()
    new_model(small_base(), tokenizer.tokenizer).save_pretrained(base)
    tokenizer.tokenizer.save_pretrained(base)
    for stage in ("sft", "ppo"):
        save_adapter(new_adapter(load_model(base), LoraParams(rank=4, alpha=8)), run / stage)
    rows = [demonstration(({"role": "user", "content": "x"},), "REASONING: a\nACTION: MOVE EAST", "colonist")] * 3
    write_rows(run / "dataset/demonstrations.jsonl", rows, DEMONSTRATIONS)
    return root


def test_all_players_meet_and_every_turn_is_counted(root: Path) -> None:
    result = castaway("marooned", "cross", "--games", "2", "--root", str(root), "--output", str(root / "cross"))
    assert result.exit_code == 0, result.output
    assert (root / "cross.md").read_text() == result.stdout
    found = json.loads((root / "cross.json").read_text())
    assert {(cell["crew"], cell["traitor"]) for cell in found["cells"]} == {(c, t) for c in PLAYERS for t in PLAYERS}
    verbs = found["verbs"]
    assert verbs["demonstrations"] == {"colonist": {"MOVE": 3}, "traitor": {}}
    # An untrained model types nothing legal: its crew waits, and never wins.
    assert verbs["sft"]["colonist"].keys() == {INVALID}
    wins = {(cell["crew"], cell["traitor"]): cell["crew_wins"] for cell in found["cells"]}
    assert all(wins["sft", traitor] == 0 for traitor in PLAYERS) and wins["expert", "sft"] == 1
    # Nobody dies: three pairs of games of 21 turns, with four colonists.
    assert sum(verbs["sft"]["colonist"].values()) == 3 * 2 * 21 * 4
    assert cross_table(root, "marooned", 2).as_json() == (root / "cross.json").read_text()


def test_what_has_no_crews_or_is_not_built_is_refused(root: Path) -> None:
    assert "only runs of marooned have crews" in refused(cross_table, root, "strictbot", 1)
    (root / "data/marooned/ppo").rename(root / "data/marooned/away")
    assert "`dvc repro` builds it" in refused(cross_table, root, "marooned", 1)
