"""The stages as `dvc.lock` records them, each with the record of the run that made it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from castaway.config.params import STAGE_SECTIONS
from castaway.errors import CastawayError
from castaway.tools.dotted import flatten

OPTION = "--"
NEGATED = "no-"
"""DVC writes an override that is true as `--key`, one that is false as `--no-key` (`parsing.bool` in .dvc/config)."""


@dataclass(frozen=True)
class Locked:
    """A stage as `dvc.lock` records it."""

    address: str
    entry: dict[str, Any]
    record: dict[str, Any]
    """The record of the run that made it; empty if there is none."""

    @property
    def name(self) -> str:
        """The stage: `sft` in `sft@marooned`."""
        return self.address.partition("@")[0]

    @property
    def run(self) -> str:
        """The run or base model behind the `@`; empty without one."""
        return self.address.partition("@")[2]

    @property
    def key(self) -> str:
        """The stage key, which is also a tag of the MLflow run."""
        return stage_key(self.entry)

    @property
    def outs(self) -> dict[str, str]:
        """Path to md5 of the stage's outputs, without the run records, which differ from run to run."""
        pairs = {out["path"]: str(out.get("md5", "")) for out in self.entry.get("outs", [])}
        return {path: md5 for path, md5 in pairs.items() if Path(path).parent.name != "runs"}

    @property
    def artifact(self) -> str:
        """Path of the stage's main output, the folder with its name."""
        return f"data/{self.run}/{self.name}" if self.run else f"data/{self.name}"

    @property
    def dependencies(self) -> dict[str, str]:
        """Path to md5 of the data that the stage read."""
        pairs = {dep["path"]: str(dep.get("md5", "")) for dep in self.entry.get("deps", [])}
        return {path: md5 for path, md5 in pairs.items() if path.startswith("data/")}

    @property
    def params(self) -> dict[str, Any]:
        """Dotted key to value: the parameters that it depends on, with what its run sets differently."""
        found = flatten(self.entry.get("params", {}).get("params.yaml", {}))
        return {**found, **{key: value for key, value in _overrides(self.entry.get("cmd", "")).items() if key in found}}

    def metrics(self, root: Path) -> dict[str, Any]:
        """Its metrics with dotted keys, if the file is still the one that it wrote; else empty."""
        text = self.written(root, str(Path(self.artifact).parent / "metrics" / f"{self.name}.json"))
        return flatten(json.loads(text)) if text else {}

    def written(self, root: Path, path: str) -> bytes | None:
        """The content of one of its output files, if that is still what it wrote."""
        try:
            content = (root / path).read_bytes()
        except OSError:
            return None
        same = hashlib.md5(content, usedforsecurity=False).hexdigest() == self.outs.get(path)
        return content if same else None

    @property
    def recorded(self) -> bool:
        """Whether the record is of a run with exactly these inputs."""
        return bool(self.record) and self.record.get("stage_key") == self.key

    @property
    def known(self) -> bool:
        """Whether the record is of a run that made these outputs; after `dvc commit`, perhaps with other inputs."""
        made = self.record.get("outputs") or {}
        return self.recorded or (bool(made) and all(self.outs.get(path) == md5 for path, md5 in made.items()))


def locked_stages(root: Path) -> dict[str, Locked]:
    """Every stage of `dvc.lock`, by address.

    Raises:
        CastawayError: there is no `dvc.lock`, or it is not YAML.
    """
    try:
        content = YAML(typ="safe", pure=True).load((root / "dvc.lock").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError("there is no dvc.lock, so nothing has been built yet; run `dvc repro`") from None
    except YAMLError as error:
        raise CastawayError(f"dvc.lock is not YAML ({error.__class__.__name__}); restore it with git") from None
    stages = {}
    for address, entry in (content or {}).get("stages", {}).items():
        name, _, task = address.partition("@")
        record = root / "data" / task / "runs" / f"{name}.json"
        stages[address] = Locked(address, entry, _json_object(record))
    return stages


def stage_key(entry: Mapping[str, Any]) -> str:
    """The stage key of an entry in `dvc.lock`: SHA-256 over its command, its inputs by content, its outputs by name."""
    identity = {**entry, "outs": [out["path"] for out in entry.get("outs", [])]}
    return hashlib.sha256(json.dumps(_without_sizes(identity), sort_keys=True).encode()).hexdigest()


def _without_sizes(value: Any) -> Any:
    """The value without sizes and file counts: the md5 already says what the content is."""
    if isinstance(value, list):
        return [_without_sizes(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _without_sizes(item) for key, item in value.items() if key not in ("size", "nfiles")}
    return value


def _json_object(path: Path) -> dict[str, Any]:
    """The object in a file; empty if the file is missing or invalid, since records only inform."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _overrides(command: str) -> dict[str, Any]:
    """Dotted key to value: what a run sets differently, as it stands behind its command, `# ppo: --steps 20 sft: `."""
    found: dict[str, Any] = {}
    section, key, values = "", "", list[str]()
    # The last word ends the key before it.
    for word in [*shlex.split(command.partition("# ")[2]), f"{STAGE_SECTIONS[0]}:"]:
        begins = word.removesuffix(":") in STAGE_SECTIONS and word.endswith(":")
        if not begins and not word.startswith(OPTION):
            values.append(word)
            continue
        if key and values:
            read = [YAML(typ="safe", pure=True).load(value) for value in values]
            found[f"{section}.{key}"] = read if len(read) > 1 else read[0]
        elif key:
            found[f"{section}.{key.removeprefix(NEGATED)}"] = not key.startswith(NEGATED)
        section, key, values = (word[:-1], "", []) if begins else (section, word.removeprefix(OPTION), [])
    return found
