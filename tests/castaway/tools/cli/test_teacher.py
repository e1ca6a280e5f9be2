"""`castaway teacher` as a person types it."""

import socket
from pathlib import Path
from time import monotonic

import pytest
from typer.testing import Result

from castaway.config.errors import CastawayError
from castaway.config.key import KEY_FILE_VARIABLE, KEY_VARIABLE, secret
from tests.castaway.command import castaway, told
from tests.shipped import ROOT


def teacher(*arguments: str) -> Result:
    return castaway("teacher", *arguments)


@pytest.mark.parametrize(
    "chosen", [("--run", "marooned"), ("--run", "strictbot"), ("--params", str(ROOT / "profiles" / "demo.yaml"))]
)
def test_check_prints_the_verdicts_on_four_replies_beside_those_of_the_rules(url: str, chosen: tuple[str, str]) -> None:
    done = teacher("check", "--url", url, "--model", "good", *chosen)
    assert done.exit_code == 0, done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:6]]
    assert rows == [rows[0], f"{rows[0]} {rows[0]}", "DANCE", "I do not know"] and rows[0]
    assert "tries: 4" in done.stdout


def test_a_run_that_does_not_exist_and_a_server_that_refuses_are_told_in_one_line(url: str) -> None:
    assert "chess" in told(teacher("check", "--url", url, "--run", "chess"))
    assert "answers cannot be used" in told(teacher("check", "--url", url, "--model", "prose"))
    refused = told(teacher("check", "--url", url, "--model", "rejecting"))
    assert refused.startswith("error: the teacher's server at http://127.0.0.1") and "stage again" not in refused


def test_where_nothing_listens_it_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        began = monotonic()
        done = teacher("check", "--url", url)
    assert monotonic() - began < 30  # the patience of a training is a minute
    assert f"no server listens at {url} (" in told(done)


def test_the_key_comes_from_the_environment_or_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)
    assert secret() == ""
    monkeypatch.setenv(KEY_VARIABLE, "one")
    assert secret() == "one"
    path = tmp_path / "key"
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))
    with pytest.raises(CastawayError, match=f"{KEY_FILE_VARIABLE} names .*which cannot be read"):
        secret()
    path.write_text("two\n")
    assert secret() == "two"
