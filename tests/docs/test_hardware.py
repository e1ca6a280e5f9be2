"""The variables for the MI300X are set where the page says, and nowhere else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/hardware.md").read_text("utf-8")
TABLE = PAGE.partition("| variable | why | set by |\n")[2].partition("\n\n")[0].splitlines()[1:]
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TABLE]


def setting(variable: str) -> set[str]:
    """The files of ours that name a variable."""
    files = [path for folder in ("castaway", "flows", "stages") for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix() for path in files if f'"{variable}"' in path.read_text("utf-8")}


def test_the_table_is_there() -> None:
    assert len(ROWS) > 5 and all(len(row) == 3 and all(row) for row in ROWS)


@pytest.mark.parametrize(("variable", "why", "by"), ROWS)
def test_a_variable_is_set_where_the_page_says(variable: str, why: str, by: str) -> None:
    named = set(re.findall(r"`((?:castaway|flows|stages)/[^`]+)`", by))
    assert named and setting(variable.strip("`")) == named
