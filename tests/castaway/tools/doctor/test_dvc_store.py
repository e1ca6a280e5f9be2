"""Cache and remote of a real DVC repository."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from castaway.tools.doctor.dvc_store import cache, dvc_store, remote


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DVC repository whose remote is a folder beside it."""
    place = tmp_path_factory.mktemp("clone")
    for command in (
        ["init", "--no-scm", "--quiet"],
        ["remote", "add", "--quiet", "--default", "beside", "../beside"],
        ["config", "--local", "cache.dir", "../kept"],
    ):
        subprocess.run([sys.executable, "-m", "dvc", *command], cwd=place, check=True)
    return place


def test_dvc_says_where_cache_and_remote_are(clone: Path) -> None:
    """They stand in the files of its configuration as relative paths."""
    before = sorted(clone.rglob("*"))
    kept, beside = dvc_store(clone)
    assert kept.state == "ok" and kept.found.startswith(f"{clone.parent / 'kept'} is not there yet")
    assert beside.state == "warning" and beside.found == f"beside at {clone.parent / 'beside'}, which does not exist"
    (clone.parent / "beside").mkdir()
    assert [one.state for one in dvc_store(clone)] == ["ok", "ok"]
    assert sorted(clone.rglob("*")) == before


def test_a_folder_without_dvc_has_failed(tmp_path: Path) -> None:
    (found,) = dvc_store(tmp_path)
    assert found.state == "failed" and "there is no .dvc" in found.found


def test_a_broken_configuration_has_failed(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core\n")
    (found,) = dvc_store(tmp_path)
    assert found.state == "failed" and "\n" not in found.found


def test_a_cache_that_is_a_file_has_failed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert cache(tmp_path / "cache").state == "failed"
    assert cache(tmp_path / "other" / "cache").state == "ok"


def test_remotes(tmp_path: Path, serve: Callable[..., int], free: int) -> None:
    def state(url: str) -> str:
        return remote({"core.remote": "store", "remote.store.url": url} if url else {"core.remote": "store"}).state

    assert remote({}).state == "ok"
    assert state("") == "warning"
    assert state(str(tmp_path)) == "ok"
    assert state(f"http://127.0.0.1:{serve({})}/dvc") == "ok"
    assert state(f"http://127.0.0.1:{free}/dvc") == "warning"
    assert state("s3://bucket/dvc") == "ok"
