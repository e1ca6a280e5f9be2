"""Turns what is wrong with a file of settings into sentences that name the key, the value and what was expected."""

from __future__ import annotations

import difflib
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

SHOWN = 3
"""More mistakes than this in one file are counted, not listed."""

Location = tuple[int | str, ...]


def explain(model: type[BaseModel], error: ValidationError) -> str:
    """Every mistake that `model` found, in one line."""
    # What is missing comes last: a misspelt key is both unknown and missing, and only the first is news.
    mistakes = sorted(error.errors(), key=lambda mistake: mistake["type"] == "missing")
    sentences = [_sentence(model, mistake) for mistake in mistakes]
    line = "; ".join(sentences[:SHOWN])
    return f"{line}; and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else line


def _sentence(model: type[BaseModel], mistake: Any) -> str:
    location: Location = mistake["loc"]
    key = ".".join(str(part) for part in location)
    kind = mistake["type"]
    if location[-1:] == ("[key]",):
        return f"{'.'.join(map(str, location[:-1]))} is unknown, {_other_names(model, location[:-2])}"
    if kind == "extra_forbidden":
        return f"{key} is unknown, {_nearest(model, location)}"
    if kind == "invalid_key":
        return f"{key} is not a name, expected {_nearest_names(_section(model, location[:-1]))}"
    if kind == "missing":
        return f"{key} is missing, expected {_expectation(model, location)}"
    if kind == "value_error":  # a rule between keys; its message names the key inside the section
        return ".".join(filter(None, (key, str(mistake["ctx"]["error"]))))
    return f"{key} is {_shown(mistake['input'])}, expected {_expectation(model, location)}"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _section(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the section that `location` leads to; the last one that exists where it leads nowhere."""
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


def _other_names(model: type[BaseModel], location: Location) -> str:
    """The names that a mapping at this place may have."""
    annotation: Any = _section(model, location[:-1]).model_fields[str(location[-1])].annotation
    return f"expected {_type_words(get_args(annotation)[0])}"


def _nearest(model: type[BaseModel], location: Location) -> str:
    section = _section(model, location[:-1])
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1, cutoff=0.5)
    if close:
        return f"did you mean {'.'.join(str(part) for part in (*location[:-1], close[0]))}?"
    return f"expected {_nearest_names(section)}"


def _nearest_names(section: type[BaseModel]) -> str:
    return f"one of {', '.join(section.model_fields)}"


def _expectation(model: type[BaseModel], location: Location) -> str:
    field = _section(model, location[:-1]).model_fields.get(str(location[-1]))
    if field is not None:
        return _described(field)
    # Inside a list or a mapping, whose last part is a position or a name.
    holder = _section(model, location[:-2]).model_fields.get(str(location[-2])) if len(location) > 1 else None
    if holder is None:
        return f"a mapping with {_keys(model)}"
    return _described(FieldInfo.from_annotation(get_args(holder.annotation)[-1]))


def _described(field: FieldInfo) -> str:
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"a section with {_keys(annotation)}"
    bounds = [
        f"{words} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, words in (("gt", "greater than"), ("ge", "of at least"), ("lt", "less than"), ("le", "of at most"))
        if getattr(bound, name, None) is not None
    ]
    words = _type_words(annotation)
    if any(getattr(bound, "min_length", None) for bound in field.metadata):
        words = words.replace("a ", "a non-empty ", 1)
    return " ".join([words, " and ".join(bounds)]).strip()


def _keys(section: type[BaseModel]) -> str:
    names: Sequence[str] = list(section.model_fields)
    return f"the keys {', '.join(names)}" if len(names) > 1 else f"the key {names[0]}"


def _type_words(annotation: Any) -> str:
    """`int` becomes "a whole number", `Literal["a", "b"]` becomes "one of 'a', 'b'"."""
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "null"}
    if annotation in words:
        return words[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        listed = ", ".join(repr(argument) for argument in arguments)
        return f"one of {listed}" if len(arguments) > 1 else listed
    if origin is list:
        return f"a list of {_type_words(arguments[0])}"
    if origin is dict and arguments[1] is Any:
        return "a section with keys of the section of its name"
    if origin is dict:
        return f"a section with {_described(FieldInfo.from_annotation(arguments[1]))} for each name"
    if origin in (Union, types.UnionType):
        return " or ".join(_type_words(argument) for argument in arguments)
    return str(annotation)
