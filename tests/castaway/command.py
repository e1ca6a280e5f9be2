"""The command `castaway` within the process of a test, which does not wait for imports, and how mistakes are told."""

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from castaway.config.errors import CastawayError
from castaway.tools.cli.main import app

ROOT = Path(__file__).parents[2]


def castaway(*arguments: str, at: Path = ROOT, typed: str | bytes = "") -> Result:
    with chdir(at):
        return CliRunner().invoke(app, arguments, input=typed)


def told(result: Result) -> str:
    """The one line that a mistake is told in."""
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    return result.stderr


def refused(call: Callable[..., object], *arguments: object) -> str:
    """The one line that a function refuses its arguments in."""
    with pytest.raises(CastawayError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)
