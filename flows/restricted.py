"""What one stage may read: the parameters and the folders that dvc.yaml says it depends on, and no others.

A stage that read anything else would keep a stale result when that changes. Here it cannot, and the error says which
line dvc.yaml lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from castaway.config.params import Params
from castaway.config.section import Section
from castaway.errors import CastawayError
from stages.context import Context


class UndeclaredError(CastawayError, AttributeError):
    """A stage reads what dvc.yaml does not list for it."""


@dataclass(frozen=True)
class RestrictedContext(Context):
    """A context that opens only the folders that the stage depends on, and its own."""

    readable: frozenset[str]
    """Paths of the dependencies, as dvc.yaml lists them."""

    def folder(self, stage: str) -> Path:
        """The folder of `stage`, if it is a dependency."""
        path = super().folder(stage)
        name = path.relative_to(self.root).as_posix()
        if stage != self.stage and name not in self.readable:
            raise UndeclaredError(f"{self.stage} reads {name}, which dvc.yaml does not list in its `deps`")
        return path


class View:
    """The part of a section, or of a mapping of sections, that a stage depends on; reading the rest is an error.

    What is depended on as a whole is the section itself. A view can be pickled: several processes may train together.
    """

    def __init__(self, address: str, place: str, values: Mapping[str, Any]) -> None:
        """The stage's address, where the section stands in params.yaml, and what of it may be read."""
        self.__dict__.update(values)
        self.__dict__["_address"], self.__dict__["_place"] = address, place

    def __getattr__(self, name: str) -> Any:
        """What is not here."""
        if name.startswith("_"):
            raise AttributeError(name)
        place = f"{self._place}.{name}" if self._place else name
        raise UndeclaredError(f"{self._address} reads {place}, which dvc.yaml does not list in its `params`")

    def __getitem__(self, name: str) -> Any:
        """A section by name, where the view is of a mapping."""
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set: parameters do not change while a stage runs")

    def __iter__(self) -> Iterator[str]:
        """The names of what may be read."""
        return (name for name in self.__dict__ if not name.startswith("_"))


def restrict(params: Params, declared: Collection[str], address: str) -> Params:
    """The parameters with nothing but the `declared` keys, dotted as in dvc.yaml: `seed`, `ppo`, `base.model`."""
    return cast(Params, _restricted(params, declared, address, ""))


def restricted_values(params: Params) -> dict[str, Any]:
    """What a stage may read, as plain mappings: sections by name, with the values that count for its run."""
    return {name: _values(getattr(params, name)) for name in cast(View, params)}


def _values(value: Any) -> Any:
    if isinstance(value, View):
        return {name: _values(value[name]) for name in value}
    return value.model_dump() if isinstance(value, Section) else value


def _restricted(section: Any, declared: Collection[str], address: str, place: str) -> Any:
    kept: dict[str, Any] = {}
    for name in section if isinstance(section, Mapping) else type(section).model_fields:
        value = section[name] if isinstance(section, Mapping) else getattr(section, name)
        key = f"{place}.{name}" if place else name
        if key in declared:
            kept[name] = value
        elif any(one.startswith(f"{key}.") for one in declared):
            kept[name] = _restricted(value, declared, address, key)
    return View(address, place, kept)
