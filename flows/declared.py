"""One stage as `dvc.yaml` declares it, with DVC's hashes of its inputs.

The stage key identifies a command together with the content of its inputs, as the key of DVC's run-cache does. A stage
computes it while it runs, and `dvc.lock` gives the same key afterwards, so the run that made an output can be found.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.tools.dotted import flatten
from castaway.tools.host_file import Torchrun, load_host
from castaway.tools.lineage.locked import stage_key
from flows.environment import main_root

DEFAULT_TIMEOUT_MINUTES = 240
"""Timeout, in minutes, of a stage whose `meta` sets none."""
LOCK_WRITE_SECONDS = 5.0
"""Time after a change of `dvc.lock` in which it may be incomplete. DVC takes about one second to rewrite it."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a stage, by content."""

    stage_key: str
    dependencies: dict[str, str]
    """Path to md5, for files and folders of code and data."""
    params: dict[str, Any]
    """Dotted key to value, for the parameters that the stage depends on."""

    @property
    def data(self) -> dict[str, str]:
        """The dependencies that are outputs of other stages."""
        return {path: md5 for path, md5 in self.dependencies.items() if path.startswith("data/")}


@dataclass(frozen=True)
class Declared:
    """A stage of `dvc.yaml`."""

    root: Path
    address: str
    """DVC's name of the stage: `sft@marooned`."""
    stage: Any = field(repr=False)
    """DVC's object of the stage."""

    @property
    def name(self) -> str:
        """The stage: `sft` in `sft@marooned`."""
        return self.address.partition("@")[0]

    @property
    def run(self) -> str:
        """The run, `marooned` in `sft@marooned`, or the base model, `games` in `base@games`; empty without an `@`."""
        return self.address.partition("@")[2]

    @property
    def device(self) -> str:
        """The kind of device that the stage is pinned to on this host, one of `castaway.tools.hardware.KINDS`."""
        return load_host(main_root(self.root)).pin(self.address, str((self.stage.meta or {}).get("device", "cpu")))

    @property
    def processes(self) -> int:
        """How many processes may share the stage's jobs; on a GPU, which they would have to share too, it is one."""
        return int((self.stage.meta or {}).get("cpu_processes", 1)) if self.device == "cpu" else 1

    @property
    def torchrun(self) -> Torchrun:
        """How the processes that train the stage are started on this host."""
        return load_host(main_root(self.root)).processes(self.address)

    @property
    def timeout_seconds(self) -> float:
        """How long the stage may take, in seconds."""
        return 60 * float((self.stage.meta or {}).get("timeout_minutes", DEFAULT_TIMEOUT_MINUTES))

    @property
    def outs(self) -> list[str]:
        """Paths of the cached outputs, which later stages may read."""
        return [out.def_path for out in self.stage.outs if out.use_cache]

    @property
    def plots(self) -> list[str]:
        """Paths of the curve files that the stage declares, JSON and JSON lines alike."""
        return [out.def_path for out in self.stage.outs if Path(out.def_path).parent.name == "plots"]

    @property
    def param_names(self) -> set[str]:
        """The parameters that the stage depends on, as dvc.yaml lists them: `seed`, `ppo`, `ppo.lora`."""
        return {name for dependency in self.stage.deps for name in getattr(dependency, "params", ())}

    @cached_property
    def inputs(self) -> Inputs:
        """Hashes of the dependencies as they are now.

        Raises:
            CastawayError: a dependency does not exist.
        """
        from dvc.dependency.base import DependencyDoesNotExistError
        from dvc.stage.serialize import to_single_stage_lockfile

        for dependency in self.stage.deps:
            try:
                dependency.save()
            except DependencyDoesNotExistError:
                missing, hint = dependency.def_path, f"run `dvc repro {self.address}`, or put it there"
                raise CastawayError(f"{self.address} needs {missing}, which does not exist; {hint}") from None
        entry = to_single_stage_lockfile(self.stage)
        return Inputs(
            stage_key=stage_key(entry),
            dependencies={dep["path"]: str(dep.get("md5", "")) for dep in entry.get("deps", [])},
            params={
                key: value for section in entry.get("params", {}).values() for key, value in flatten(section).items()
            },
        )

    @property
    def locked(self) -> dict[str, str]:
        """What dvc.lock says of the dependencies: hash by path, and value by parameter; empty for a new stage."""
        found: dict[str, str] = {}
        for dependency in self.stage.deps:
            value = dependency.hash_info.value
            if isinstance(value, Mapping):
                found |= {name: json.dumps(each, sort_keys=True) for name, each in flatten(value).items()}
            elif value:
                found[dependency.def_path] = str(value)
        return found

    def output_hashes(self) -> dict[str, str]:
        """Path to md5 of the cached outputs as they are now. DVC stores the hashes and reuses them afterwards."""
        return {out.def_path: str(out.get_hash().value) for out in self.stage.outs if out.use_cache and out.exists}


def load(root: Path, address: str) -> Declared:
    """The stage `address` of the repository at `root`.

    Raises:
        CastawayError: `dvc.yaml` has no such stage, or cannot be read.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.stage.exceptions import StageNotFound

    end = time.monotonic() + LOCK_WRITE_SECONDS
    while True:
        try:
            repo = Repo(str(root))
            # By its path: without one DVC reads the dvc.yaml of the working directory.
            return Declared(root, address, repo.stage.load_one(str(root / "dvc.yaml"), address))
        except StageNotFound:
            raise no_stage(address, [stage.addressing for stage in repo.stage.load_all()]) from None
        except DvcException as error:
            # The error may come from an incomplete dvc.lock, so try again until the file is certainly complete. The
            # time of the file says nothing after a jump of the clock, so not for ever.
            if not _being_written(root / "dvc.lock") or time.monotonic() > end:
                raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None
        time.sleep(LOCK_WRITE_SECONDS / 10)


def no_stage(address: str, names: Sequence[str]) -> CastawayError:
    """The error that dvc.yaml, which has stages of these names, has none of this address."""
    close = difflib.get_close_matches(address, names, n=1)
    of_runs = [name for name in names if name.partition("@")[0] == address.partition("@")[0]]
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(of_runs or names)}"
    return CastawayError(f"dvc.yaml has no stage {address}; {hint}")


def _being_written(path: Path) -> bool:
    """Whether DVC, which runs another stage in parallel, may still be writing the file."""
    try:
        return time.time() - path.stat().st_mtime < LOCK_WRITE_SECONDS
    except OSError:
        return False
