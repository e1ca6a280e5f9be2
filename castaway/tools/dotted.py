"""Nested mappings as dotted keys, the way in which parameters and metrics are named on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted keys: `{"lora": {"rank": 8}}` becomes `{"lora.rank": 8}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat.update(flatten(value, name) if isinstance(value, Mapping) else {name: value})
    return flat
