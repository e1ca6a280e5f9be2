"""Reads YAML files, with any error in one line; and names what they hold by dotted keys, as a command line does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import YAMLError

from castaway.config.errors import CastawayError


def read_yaml(path: Path) -> Any:
    """The content of a YAML 1.2 file: `1e-4` is a number, `no` is a text, and a duplicate key is an error."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CastawayError(f"{path} does not exist; run from a clone of the repository") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CastawayError(f"{path.name} cannot be read as UTF-8 text: {error}") from None
    try:
        return YAML(typ="safe", pure=True).load(text)
    except DuplicateKeyError as error:
        key = str(error.problem).split('"')[1]
        raise CastawayError(f"{path.name}: {key} is given twice, expected once{_where(error, text)}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise CastawayError(f"{path.name} is not YAML: {problem}{_where(error, text)}") from None


def _where(error: Exception, text: str) -> str:
    """The line at which the parser failed; for a bracket or quote that is never closed, the line that opened it."""
    mark = getattr(error, "problem_mark", None)
    if any(word in str(getattr(error, "context", "")) for word in ("flow", "quoted")):
        mark = getattr(error, "context_mark", None) or mark
    position = getattr(error, "position", None)  # set when the error is a character that YAML does not allow
    if mark is None and position is None:
        return ""
    number: int = text.count("\n", 0, position) if mark is None else mark.line
    line = "".join(text.splitlines()[number : number + 1]).strip()
    return f" (line {number + 1}: {line[:60]!r})"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted keys: `{"lora": {"rank": 8}}` becomes `{"lora.rank": 8}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat.update(flatten(value, name) if isinstance(value, Mapping) else {name: value})
    return flat
