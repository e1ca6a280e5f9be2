"""What is no folder of a model is told before anything is loaded."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from benchmarks.folders import model_folder, named_folder


def test_a_folder_and_its_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    assert model_folder(str(tmp_path)) == tmp_path
    assert named_folder(f"small={tmp_path}") == ("small", tmp_path)


@pytest.mark.parametrize(
    ("text", "told"), [("nowhere", "NAME=FOLDER"), ("=nowhere", "NAME=FOLDER"), ("small=nowhere", "no tokenizer.json")]
)
def test_what_is_none(text: str, told: str) -> None:
    with pytest.raises(ArgumentTypeError, match=told):
        named_folder(text)
