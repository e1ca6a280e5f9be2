"""How one file of parameters differs from another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from castaway.config.params import Params

BLOCKS = ("bases", "tasks")
"""The sections whose keys are names that the user chose."""


def difference(old: Params, new: Params) -> str:
    """The keys that differ, `old -> new`, grouped by section; base models and runs that were added or are gone.

    Returns:
        Lines of text; none if the parameters are equal.
    """
    lines: list[str] = []
    before, after = old.model_dump(), new.model_dump()
    for section in Params.model_fields:
        compare = _block if section in BLOCKS else _keys
        own = list(compare(before[section], after[section]))
        if own and isinstance(after[section], Mapping):
            lines += [f"{section}:", *(f"  {line}" for line in own)]
        else:
            lines += [f"{section}{line}" for line in own]
    return "\n".join(lines)


def _block(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Of a section of named blocks."""
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{name}: gone"
        elif name not in old:
            yield f"{name}: added ({_short(new[name])})"
        else:
            yield from (f"{name}.{line}" for line in _keys(old[name], new[name]))


def _keys(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """The keys below a place that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            # The overrides of a run stand in its block beside `game`.
            inner = place if key == "overrides" else f"{place}.{key}" if place else str(key)
            yield from _keys(old.get(key, NOTHING), new.get(key, NOTHING), inner)
    elif old != new:
        yield f"{place}: {_text(old)} -> {_text(new)}"


class _Nothing:
    """Stands for a key that is not there."""


NOTHING = _Nothing()


def _text(value: Any) -> str:
    """A value as in YAML."""
    if isinstance(value, _Nothing):
        return "not set"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) + "}"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _short(block: Mapping[str, Any]) -> str:
    """What a block is, in a few words: the task and base of a run, the origin of a base model."""
    if "task" in block:
        return f"task {block['task']}, base {block['base']}"
    return next((str(block[key]) for key in ("hub", "path", "package") if key in block), "tiny")
