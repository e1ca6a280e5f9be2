"""Restricts a stage to the parameters and folders that dvc.yaml lists as its dependencies.

If a stage read anything else, DVC would keep its old result after a change there. Here such access is an error, which
says what dvc.yaml lacks.
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
    """A context that gives only the stage's own folder and those that it depends on."""

    readable: frozenset[str]
    """Paths of the dependencies, as dvc.yaml lists them."""
    original: Path
    """The root of the original repository, for an experiment in a temporary copy; else `root`."""

    @property
    def verdicts(self) -> Path:
        """Path of the cache of a teacher's answers, which cost money, so that a deleted copy does not take it along."""
        return self.original / "scratch" / "verdicts.sqlite"

    @property
    def packages(self) -> Path:
        """Path of the folder of fetched wheels, which all copies share."""
        return self.original / "scratch" / "packages"

    @property
    def vllm(self) -> Path:
        """Path of the virtual environment with vLLM: a copy has none."""
        return self.original / ".venv-vllm"

    def folder(self, stage: str) -> Path:
        """The folder of `stage`.

        Raises:
            UndeclaredError: dvc.yaml does not list it as a dependency.
        """
        path = super().folder(stage)
        name = path.relative_to(self.root).as_posix()
        if stage != self.stage and name not in self.readable:
            raise UndeclaredError(f"{self.stage} reads {name}, which dvc.yaml does not list in its `deps`")
        return path


class View:
    """The part of a section, or of a mapping of sections, that a stage depends on; reading another key is an error.

    A section that the stage depends on as a whole is not wrapped. A view can be copied and pickled.
    """

    def __init__(self, address: str, place: str, values: Mapping[str, Any]) -> None:
        """Make the view.

        Args:
            address: of the stage, for error messages.
            place: dotted key of the section in params.yaml; empty for the whole file.
            values: the keys that may be read.
        """
        # Directly into __dict__, because __setattr__ refuses; a key found there never reaches __getattr__.
        self.__dict__.update(values)
        self.__dict__["_address"], self.__dict__["_place"] = address, place

    def __getattr__(self, name: str) -> Any:
        """Called for names that are not in the view.

        Raises:
            UndeclaredError: always, except for private names.
        """
        # pickle and copy look up private names before __dict__ is filled; `self._place` would then recurse for ever.
        if name.startswith("_"):
            raise AttributeError(name)
        place = f"{self._place}.{name}" if self._place else name
        raise UndeclaredError(f"{self._address} reads {place}, which dvc.yaml does not list in its `params`")

    def __getitem__(self, name: str) -> Any:
        """A section by name, if the view is of a mapping."""
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set: parameters do not change while a stage runs")

    def __iter__(self) -> Iterator[str]:
        """The names that may be read."""
        return (name for name in self.__dict__ if not name.startswith("_"))


def restrict(params: Params, declared: Collection[str], address: str) -> Params:
    """A view of the parameters with only the `declared` keys, dotted as in dvc.yaml: `seed`, `ppo`, `ppo.lora`."""
    return cast(Params, _restricted(params, declared, address, ""))


def restricted_values(params: Params) -> dict[str, Any]:
    """The readable parameters of a view as nested dictionaries, with the overrides of the run applied."""
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
