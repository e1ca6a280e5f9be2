"""Ten of the classes of docs/models.md do what the page says: they run through all stages, or are refused."""

from pathlib import Path

import pytest

from tests.matrix import PAGE, row_of

CHECKED = ("granite", "gemma3_text", "gpt_oss", "olmoe", "gpt2", "opt", "bloom", "lfm2", "qwen3_next", "mamba2")


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_a_class_gives_what_the_page_says(name: str, tmp_path: Path) -> None:
    kind, drawn, scored, clipped, result = row_of(name, tmp_path)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").split("\n")]
    assert [row[4] for row in rows if row[0] == kind] == [result]
    if not result.startswith("refused"):
        assert max(float(drawn), float(scored)) < 5e-5 and clipped == "0"
