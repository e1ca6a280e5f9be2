"""One stage as `dvc.yaml` declares it, and the hashes of what it is about to read, as DVC sees them.

The stage key is the name that DVC's own run-cache has for "this command with these inputs". A stage computes it while
it runs, `dvc.lock` gives the same key afterwards, and so a run is found again by what it was made of.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError

MINUTES_WITHOUT_A_WORD = 240
"""Timeout of a stage whose `meta` names none."""
PATIENCE = 5.0
"""Seconds after a change of `dvc.lock` in which it may be half a file: DVC takes about one to write it over."""


@dataclass(frozen=True)
class Inputs:
    """What a stage is about to read."""

    stage_key: str
    dependencies: dict[str, str]
    """Path to md5, files and folders of code and data alike."""
    params: dict[str, Any]
    """Dotted key to value, for the sections that the stage depends on."""

    @property
    def data(self) -> dict[str, str]:
        """The dependencies that other stages made."""
        return {path: md5 for path, md5 in self.dependencies.items() if path.startswith("data/")}


@dataclass(frozen=True)
class Declared:
    """A stage of `dvc.yaml`."""

    root: Path
    address: str
    """`sft@marooned`, as DVC calls it."""
    stage: Any = field(repr=False)
    """DVC's own object."""

    @property
    def name(self) -> str:
        """`sft`, of `sft@marooned`."""
        return self.address.partition("@")[0]

    @property
    def run(self) -> str:
        """`marooned`, of `sft@marooned`; `games`, of `base@games`; empty where nothing follows."""
        return self.address.partition("@")[2]

    @property
    def device(self) -> str:
        """The kind of device that the stage is pinned to."""
        return str((self.stage.meta or {}).get("device", "cpu"))

    @property
    def timeout_seconds(self) -> float:
        """How long the stage may take."""
        return 60 * float((self.stage.meta or {}).get("timeout_minutes", MINUTES_WITHOUT_A_WORD))

    @property
    def outs(self) -> list[str]:
        """The cached outs: what later stages may read."""
        return [out.def_path for out in self.stage.outs if out.use_cache]

    @property
    def plots(self) -> list[str]:
        """The files of curves that the stage promises, in whatever format."""
        return [out.def_path for out in self.stage.outs if Path(out.def_path).parent.name == "plots"]

    @property
    def param_names(self) -> set[str]:
        """The parameters that the stage depends on, as dvc.yaml lists them: `seed`, `ppo`, `base.model`."""
        return {name for dependency in self.stage.deps for name in getattr(dependency, "params", ())}

    @cached_property
    def inputs(self) -> Inputs:
        """Hashes of the dependencies as they are now.

        Raises:
            CastawayError: if a dependency does not exist.
        """
        from dvc.dependency.base import DependencyDoesNotExistError
        from dvc.stage.serialize import to_single_stage_lockfile

        for dependency in self.stage.deps:
            try:
                dependency.save()
            except DependencyDoesNotExistError:
                missing, command = dependency.def_path, f"dvc repro {self.address}"
                raise CastawayError(f"{self.address} needs {missing}, which is not there; run `{command}`") from None
        entry = to_single_stage_lockfile(self.stage)
        return Inputs(
            stage_key=stage_key(entry),
            dependencies={dep["path"]: str(dep.get("md5", "")) for dep in entry.get("deps", [])},
            params={
                key: value for section in entry.get("params", {}).values() for key, value in flatten(section).items()
            },
        )

    def output_hashes(self) -> dict[str, str]:
        """Path to md5 of the cached outs as they are now; DVC remembers them, so it need not hash them again."""
        return {out.def_path: str(out.get_hash().value) for out in self.stage.outs if out.use_cache and out.exists}


def load(root: Path, address: str) -> Declared:
    """The stage of that name.

    Raises:
        CastawayError: if `dvc.yaml` has no such stage, or is broken.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.stage.exceptions import StageNotFound

    try:
        repo = Repo(str(root))
        return Declared(root, address, repo.stage.load_one(name=address))
    except StageNotFound:
        names = [stage.addressing for stage in repo.stage.load_all()]
        close = difflib.get_close_matches(address, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"
        raise CastawayError(f"dvc.yaml has no stage {address}; {hint}") from None
    except DvcException as error:
        if _being_written(root / "dvc.lock"):
            time.sleep(PATIENCE / 10)
            return load(root, address)
        raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None


def _being_written(path: Path) -> bool:
    """Whether another stage, which DVC runs beside this one, may be about to write the rest of the file."""
    try:
        return time.time() - path.stat().st_mtime < PATIENCE
    except OSError:
        return False


def stage_key(entry: Mapping[str, Any]) -> str:
    """The key of a stage's entry in `dvc.lock`: its command and inputs by content, and its outs by name."""
    made = {**entry, "outs": [out["path"] for out in entry.get("outs", [])]}
    return hashlib.sha256(json.dumps(_without_sizes(made), sort_keys=True).encode()).hexdigest()


def _without_sizes(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_sizes(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _without_sizes(item) for key, item in value.items() if key not in ("size", "nfiles")}
    return value


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"lora": {"rank": 8}}` becomes `{"lora.rank": 8}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat.update(flatten(value, name) if isinstance(value, Mapping) else {name: value})
    return flat
