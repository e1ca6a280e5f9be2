"""Folders of models, as arguments of a benchmark's command."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path


def model_folder(text: str) -> Path:
    """The folder of a model or of its tokenizer, for argparse, which shows the error.

    Raises:
        ArgumentTypeError: there is no tokenizer in it.
    """
    folder = Path(text)
    if not (folder / "tokenizer.json").is_file():
        raise ArgumentTypeError(f"{folder} is no folder of a model: it has no tokenizer.json")
    return folder


def named_folder(text: str) -> tuple[str, Path]:
    """The name and the folder of a model, written as NAME=FOLDER, for argparse.

    Raises:
        ArgumentTypeError: it is written otherwise, or the folder is not that of a model.
    """
    name, sign, folder = text.partition("=")
    if not (name and sign):
        raise ArgumentTypeError(f"{text} is not of the form NAME=FOLDER")
    return name, model_folder(folder)
