"""What one stage may read: the parameters and the folders that dvc.yaml says it depends on, and no others.

A stage that read anything else would keep a stale result when that changes. Here it cannot, and the error says which
line dvc.yaml lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from castaway.errors import CastawayError
from stages.context import Context

Model = TypeVar("Model", bound=BaseModel)


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


def restrict(params: Model, declared: Collection[str], address: str) -> Model:
    """A copy of `params` with nothing but the `declared` keys, dotted as in dvc.yaml: `seed`, `ppo`, `base.model`."""
    return _restricted(params, declared, address, "")


def _restricted(section: Model, declared: Collection[str], address: str, prefix: str) -> Model:
    kept: dict[str, Any] = {}
    fields = type(section).model_fields
    for name in fields:
        key = f"{prefix}{name}"
        if key in declared:
            kept[name] = getattr(section, name)
        elif any(one.startswith(f"{key}.") for one in declared):
            value = getattr(section, name)
            if isinstance(value, Mapping):
                kept[name] = {one: value[one] for one in value if f"{key}.{one}" in declared}
            else:
                kept[name] = _restricted(value, declared, address, f"{key}.")

    class Restricted(type(section)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            if name in fields:
                raise UndeclaredError(f"{address} reads {prefix}{name}, which dvc.yaml does not list in its `params`")
            return super().__getattr__(name)

    restricted: Model = Restricted.model_construct(**kept)
    return restricted
