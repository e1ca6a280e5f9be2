"""Turns pydantic's validation errors into one line of text that names the key, its value and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

SHOWN = 3
"""Number of mistakes that are listed; the rest are only counted."""

Location = tuple[int | str, ...]
"""The path of a value: keys from the outermost section to the value, and positions in lists."""


def explain(model: type[BaseModel], error: ValidationError, place: Location = ()) -> str:
    """The mistakes that `model` found, in one line; `place` is the path of the model in the file."""
    # Missing keys come last: a misspelt key gives two errors, unknown and missing, and the first one is more helpful.
    mistakes = sorted(error.errors(), key=lambda mistake: mistake["type"] == "missing")
    sentences = [_sentence(model, mistake, place) for mistake in mistakes]
    line = "; ".join(sentences[:SHOWN])
    return f"{line}; and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else line


def _sentence(model: type[BaseModel], mistake: Any, place: Location) -> str:
    location: Location = mistake["loc"]
    key, kind = _dotted((*place, *location)), mistake["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        return unknown((*place, *location), list(_section(model, location[:-1]).model_fields))
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":  # a check over several keys; its own message names the key
        return ".".join(filter(None, (key, str(mistake["ctx"]["error"]))))
    if location[-1:] == ("[key]",):
        return f"{_dotted((*place, *location[:-1]))} is no name, expected {_expected(mistake)}"
    return f"{key} is {shown(mistake['input'])}, expected {_expected(mistake)}"


def unknown(location: Location, names: Sequence[str]) -> str:
    """The sentence about a key that there is not: the one that was probably meant, or all that there are."""
    *place, name = location
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {_dotted((*place, close[0]))}?" if close else f"expected one of {', '.join(names) or 'none'}"
    return f"{_dotted(location)} is unknown, {hint}"


def shown(value: Any) -> str:
    """A value as one would type it into the file, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _expected(mistake: Any) -> str:
    """Pydantic's message, such as "Input should be greater than 0", without "Input should be"."""
    message: str = mistake["msg"]
    words = message.removeprefix("Input should be ")
    return f"{words[0].lower()}{words[1:]}"


def _dotted(location: Location) -> str:
    return ".".join(map(str, location))


def _section(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the section at a path; if the path leads out of the models, the last model on the way."""
    parts = iter(location)
    for part in parts:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if get_origin(inner) is dict and next(parts, None) is not None:  # a mapping of named sections: skip the name
            inner = get_args(inner)[1]
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return model
