"""One stage as `dvc.yaml` declares it, with DVC's hashes of its inputs.

The stage key identifies a command together with the content of its inputs, as the key of DVC's run-cache does. A stage
computes it while it runs, and `dvc.lock` gives the same key afterwards, so the run that made an output can be found.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.yaml_file import flatten
from castaway.metrics.built import Addressed, stage_key, stage_path
from castaway.processes.environment import main_root
from castaway.processes.host_file import Torchrun, Vllm, load_host
from castaway.tracking.records import is_record

DEFAULT_TIMEOUT_MINUTES = 240  # timeout, in minutes, of a stage whose `meta` sets none
LOCK_WRITE_SECONDS = 5.0
"""Time after a change of `dvc.lock` in which it may be incomplete. DVC takes about one second to rewrite it."""


@dataclass(frozen=True)
class Inputs:
    stage_key: str
    dependencies: dict[str, str]  # path to md5, for files and folders of code and data

    @property
    def data(self) -> dict[str, str]:
        return {path: md5 for path, md5 in self.dependencies.items() if path.startswith("data/")}


@dataclass(frozen=True)
class DvcStage(Addressed):
    root: Path
    address: str
    stage: Any = field(repr=False)  # DVC's object

    def file(self, kind: str) -> Path:
        return self.root / stage_path(self.run, kind, self.name)

    @property
    def meta(self) -> dict[str, Any]:
        return self.stage.meta or {}

    @property
    def device(self) -> str:
        """The kind of device that the stage is pinned to on this host, one of `castaway.processes.hardware.KINDS`."""
        return load_host(main_root(self.root)).pin(self.address, str(self.meta.get("device", "cpu")))

    @property
    def processes(self) -> int:
        """How many processes may share the stage's jobs; on a GPU, which they would have to share too, it is one."""
        return int(self.meta.get("cpu_processes", 1)) if self.device == "cpu" else 1

    @property
    def torchrun(self) -> Torchrun:
        """How the processes that train the stage are started on this host."""
        return load_host(main_root(self.root)).processes(self.address)

    @property
    def vllm(self) -> Vllm:
        """How its vLLM server uses the GPUs of this host."""
        return load_host(main_root(self.root)).served(self.address)

    @property
    def timeout_seconds(self) -> float:
        return 60 * float(self.meta.get("timeout_minutes", DEFAULT_TIMEOUT_MINUTES))

    @property
    def retries(self) -> int:
        return int(self.meta.get("retries", 0))

    @property
    def reads(self) -> list[str]:
        return [path for dependency in self.stage.deps if (path := str(dependency.def_path)).startswith("data/")]

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
        """Hashes of the dependencies as they are now; CastawayError if one does not exist."""
        from dvc.dependency.base import DependencyDoesNotExistError
        from dvc.stage.serialize import to_single_stage_lockfile

        for dependency in self.stage.deps:
            try:
                dependency.save()
            except DependencyDoesNotExistError:
                missing, hint = dependency.def_path, f"run `dvc repro {self.address}`, or put it there"
                raise CastawayError(f"{self.address} needs {missing}, which does not exist; {hint}") from None
        entry = to_single_stage_lockfile(self.stage)
        return Inputs(stage_key(entry), {dep["path"]: str(dep.get("md5", "")) for dep in entry.get("deps", [])})

    @property
    def locked(self) -> dict[str, str]:
        """What dvc.lock says of the dependencies: hash by path, and value by parameter; empty for a new stage."""
        values: dict[str, str] = {}
        for dependency in self.stage.deps:
            value = dependency.hash_info.value
            if isinstance(value, Mapping):
                values |= {name: json.dumps(each, sort_keys=True) for name, each in flatten(value).items()}
            elif value:
                values[dependency.def_path] = str(value)
        return values

    def output_hashes(self) -> dict[str, str]:
        """Path to md5 of the cached outputs as they are now, but for the run record, which holds these hashes."""
        made = [out for out in self.stage.outs if out.use_cache and out.exists and not is_record(out.def_path)]
        return {out.def_path: str(out.get_hash().value) for out in made}


def repo_of(root: Path) -> Any:
    """DVC's view of the repository as it is now; CastawayError if DVC cannot write where it keeps what it knows."""
    from dvc.repo import Repo

    try:
        return Repo(str(root))
    except OSError as error:
        told = f"DVC cannot write to {error.filename} ({error.strerror})"
        raise CastawayError(f"{told}; make it writable, or let DVC_SITE_CACHE_DIR name another folder") from None


def load(root: Path, address: str) -> DvcStage:
    from dvc.exceptions import DvcException
    from dvc.stage.exceptions import StageNotFound

    end, written = time.monotonic() + LOCK_WRITE_SECONDS, 0.0
    while True:
        try:
            repo = repo_of(root)
            # By its path: without one DVC reads the dvc.yaml of the working directory.
            return DvcStage(root, address, repo.stage.load_one(str(root / "dvc.yaml"), address))
        except StageNotFound:
            raise no_stage(address, [stage.addressing for stage in repo.stage.load_all()]) from None
        except DvcException as error:
            # The error may come from an incomplete dvc.lock, so try again until the file is certainly complete. The
            # time of the file says nothing after a jump of the clock, so not for ever.
            with suppress(OSError):
                written = (root / "dvc.lock").stat().st_mtime
            if time.time() - written >= LOCK_WRITE_SECONDS or time.monotonic() > end:
                raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None
        time.sleep(LOCK_WRITE_SECONDS / 10)


@contextmanager
def unchanging(repo: Any) -> Iterator[None]:
    """Context in which no other command of DVC changes the repository, so that DVC makes its index only once."""
    from dvc.lock import LockError
    from dvc.repo import lock_repo

    with ExitStack() as stack:
        with suppress(LockError):
            stack.enter_context(lock_repo(repo))
        yield


def no_stage(address: str, names: Sequence[str]) -> CastawayError:
    """The error that dvc.yaml, which has stages of these names, has none of this address."""
    of_runs = [name for name in names if name.partition("@")[0] == address.partition("@")[0]]
    return CastawayError(f"dvc.yaml has no stage {address}; {did_you_mean(address, of_runs or names)}")
