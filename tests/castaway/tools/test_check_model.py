"""A model in a folder is tried before a run is built on it."""

from pathlib import Path

import pytest

from castaway.tools.check_model import check_folder
from tests.castaway.command import castaway, refused
from tests.families import FAMILIES, write_family


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_passes(family: str, tmp_path: Path) -> None:
    write_family(family, tmp_path, ["ACTION: LEFT"] * 5)
    lines = castaway("model", "check", str(tmp_path)).stdout.splitlines()
    assert len(lines) == 6 and lines[-1].startswith("an adapter gets gradients, and merged")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    assert "holds no model" in refused(check_folder, tmp_path, "float32")
    (tmp_path / "config.json").write_text("{}")
    assert "cannot be loaded" in refused(check_folder, tmp_path, "float32")
