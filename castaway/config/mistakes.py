"""Turns what is wrong with a file of settings into sentences that name the key, the value and what was expected."""

from __future__ import annotations

import difflib
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

SHOWN = 3
"""More mistakes than this in one file are counted, not listed."""

Location = tuple[int | str, ...]
"""Where a value stands: keys from the outermost section to the value, and positions in lists."""


def explain(model: type[BaseModel], error: ValidationError, place: Location = ()) -> str:
    """Every mistake that `model` found, in one line; `place` is where the model stands in the file."""
    # What is missing comes last: a misspelt key is both unknown and missing, and only the first is news.
    mistakes = sorted(error.errors(), key=lambda mistake: mistake["type"] == "missing")
    sentences = [_sentence(model, mistake, place) for mistake in mistakes]
    line = "; ".join(sentences[:SHOWN])
    return f"{line}; and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else line


def _sentence(model: type[BaseModel], mistake: Any, place: Location) -> str:
    location: Location = mistake["loc"]
    key, kind = _dotted((*place, *location)), mistake["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        return f"{key} is unknown, {_nearest(model, location, place)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":  # a rule between keys; its message names the key inside the section
        return ".".join(filter(None, (key, str(mistake["ctx"]["error"]))))
    if location[-1:] == ("[key]",):
        return f"{_dotted((*place, *location[:-1]))} is no name, expected {_expected(mistake)}"
    return f"{key} is {_shown(mistake['input'])}, expected {_expected(mistake)}"


def _expected(mistake: Any) -> str:
    """Pydantic's own words, "Input should be greater than 0", without their beginning."""
    message: str = mistake["msg"]
    words = message.removeprefix("Input should be ")
    return f"{words[0].lower()}{words[1:]}"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _dotted(location: Location) -> str:
    return ".".join(map(str, location))


def _nearest(model: type[BaseModel], location: Location, place: Location) -> str:
    """The key that was probably meant, or all keys that there are."""
    names = list(_section(model, location[:-1]).model_fields)
    close = difflib.get_close_matches(str(location[-1]), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {_dotted((*place, *location[:-1], close[0]))}?"
    return f"expected one of {', '.join(names)}"


def _section(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the section at a place; the last one on the way where that leads nowhere."""
    parts = iter(location)
    for part in parts:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if get_origin(inner) is dict and next(parts, None) is not None:  # sections by name
            inner = get_args(inner)[1]
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return model
