"""Turns pydantic's validation errors into one line of text that names the key, its value and what was expected."""

import difflib
from collections.abc import Collection, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

RENAMED = {
    "ahead": "rollout.async_rollout",
    "alike_share": "hard_negative_fraction",
    "carelessness": "random_action_rate",
    "correct": "corrections.scope",
    "corrections_kept": "corrections.kept",
    "cut_off_pay": "truncated_reward_factor",
    "keep": "select",
    "kl_coefficient": "kl.coefficient",
    "kl_estimator": "kl.estimator",
    "kl_in": "kl.penalty_in",
    "lanes": "rollout.rollout_groups",
    "plain_share": "no_reasoning_fraction",
    "ratio": "loss.importance_level",
    "sampling_tokens_per_pass": "rollout.tokens_per_pass",
}
"""Keys of older files, and what they are called now; where they have moved, with their block."""

SHOWN = 3
"""Number of mistakes that are listed; the rest are only counted."""

Location = tuple[int | str, ...]
"""The path of a value: keys from the outermost section to the value, and positions in lists."""


def explain(model: type[BaseModel], error: ValidationError, place: Location = ()) -> str:
    """The mistakes that `model` found, in one line; `place` is the path of the model in the file."""
    # Missing keys come last: a misspelt key gives two errors, unknown and missing, and the first one is more helpful.
    mistakes = sorted(error.errors(), key=lambda mistake: mistake["type"] == "missing")
    # A key under its old name is told once, not as missing too, nor is the block that it has moved to.
    unknown_keys = [mistake["loc"] for mistake in mistakes if mistake["type"] == "extra_forbidden"]
    renamed = {(*at[:-1], _new_name(_section(model, at[:-1]), str(at[-1])).split(".")[0]) for at in unknown_keys}
    mistakes = [mistake for mistake in mistakes if mistake["type"] != "missing" or mistake["loc"] not in renamed]
    sentences = [_sentence(model, mistake, place) for mistake in mistakes]
    line = "; ".join(sentences[:SHOWN])
    return f"{line}; and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else line


def _sentence(model: type[BaseModel], mistake: Any, place: Location) -> str:
    location: Location = mistake["loc"]
    key, kind = _dotted((*place, *location)), mistake["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        section = _section(model, location[:-1])
        if now := _new_name(section, str(location[-1])):
            return f"rename {key}: it is now called {_dotted((*place, *location[:-1], now))}"
        return unknown((*place, *location), list(section.model_fields))
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":  # a check over several keys; its own message names the key
        return ".".join(filter(None, (key, str(mistake["ctx"]["error"]))))
    if location[-1:] == ("[key]",):
        return f"{_dotted((*place, *location[:-1]))} is no name, expected {_expected(mistake)}"
    return f"{key} is {shown(mistake['input'])}, expected {_expected(mistake)}"


def _new_name(section: type[BaseModel], name: str) -> str:
    """What a key of an older file is called now, with the block that it has moved to; empty if it never was one."""
    now = RENAMED.get(name, "")
    if now.split(".")[0] in section.model_fields:
        return now
    blocks = {block: field.annotation for block, field in section.model_fields.items()}
    return next((f"{block}.{name}" for block, inner in blocks.items() if name in _fields(inner)), "")


def _fields(inner: Any) -> Collection[str]:
    return inner.model_fields if isinstance(inner, type) and issubclass(inner, BaseModel) else ()


def unknown(location: Location, names: Sequence[str]) -> str:
    """The sentence about a key that there is not: the one that was probably meant, or all that there are."""
    *place, name = location
    return f"{_dotted(location)} is unknown, {did_you_mean(str(name), names, _dotted((*place, '')))}"


def did_you_mean(name: str, names: Sequence[str], prefix: str = "") -> str:
    """What to type instead of an unknown name: the one that was probably meant, or all that there are.

    Args:
        name: what was typed.
        names: what there is.
        prefix: of the name that was probably meant.
    """
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {prefix}{close[0]}?" if close else f"expected one of {', '.join(names) or 'none'}"


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
    words: str = mistake["msg"].removeprefix("Input should be ")
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
