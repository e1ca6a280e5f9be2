"""A file that is no YAML, or no mapping, is refused at its line."""

from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.config.yaml_file import flatten, read_yaml
from castaway.tasks.registry import read_params
from tests.castaway.config.test_params import refusal


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("seed: 1\n", "seed: 1\nseed: 2\n", "seed is given twice"),
        ("  kind: rules\n", "  kind: rules\n  kind: rules\n", "kind is given twice"),
        ("seed: 1\n", "seed: [1\n", "'seed: [1'"),
        ("seed: 1\n", "seed: !!python/name:os.system\n", "python/name"),
        ("seed: 1\n", "seed: \x00\n", "line 4"),
        ("seed: 1\n", "1: seed\n", "1 is unknown"),
    ],
)
def test_a_broken_file_is_refused_at_its_line(before: str, after: str, words: str, tmp_path: Path) -> None:
    top = "tasks: [marooned]\nteacher:\n  kind: rules\nseed: 1\n"
    assert before in top
    assert words in refusal(top.replace(before, after), tmp_path)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "is empty" in refusal("", tmp_path)
    assert "is empty" in refusal("# nothing but a comment\n", tmp_path)
    assert "holds a list" in refusal("- seed\n- device\n", tmp_path)
    assert "UTF-8" in refusal(b"seed: \xff\xfe\n", tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match=r"params\.yaml does not exist"):
        read_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(CastawayError, match=r"params\.yaml cannot be read"):
        read_params(tmp_path / "params.yaml")


def test_yaml_is_read_as_version_1_2_and_named_by_dotted_keys(tmp_path: Path) -> None:
    (tmp_path / "any.yaml").write_text("a: {b: 1e-4, c: no}\nd: [1]\n", encoding="utf-8")
    assert flatten(read_yaml(tmp_path / "any.yaml")) == {"a.b": 1e-4, "a.c": "no", "d": [1]}
