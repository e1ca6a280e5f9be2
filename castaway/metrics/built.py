"""What was built of a stage, from the working tree or a git revision: its entry in `dvc.lock`, figures and record.

data/RUN/figures/STAGE.json     all figures of the stage, as DVC builds and restores them
data/RUN/runs/STAGE.json        the record of the run that made them, likewise
data/RUN/published/STAGE.json   both, in git, so that a clone without DVC's cache and an old commit have them too

The published ones are those of a build only if their record is of what `dvc.lock` says; else DVC's cache is asked.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from castaway.config.errors import CastawayError
from castaway.config.params import STAGE_SECTIONS
from castaway.config.yaml_file import flatten
from castaway.processes.environment import git

Figures = Mapping[str, Any]  # the metrics of one policy, or of one stage
FIGURES, RECORD = "figures", "record"  # the two keys of a published file
KINDS = {FIGURES: "figures", RECORD: "runs"}  # the folder of each, as DVC restores it
PUBLISHED = "published"
CACHE = ".dvc/cache/files/md5"  # where DVC keeps what it has built, unless its configuration says otherwise


@dataclass(frozen=True)
class Built:
    """The figures of one run of a stage, and the record of that run."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.figures or self.record)


def stage_path(run: str, kind: str, stage: str) -> str:
    """The path of a small file of a stage from the root; `data/KIND/STAGE.json` for a stage of no run."""
    return f"data/{run}/{kind}/{stage}.json" if run else f"data/{kind}/{stage}.json"


def built(root: Path, run: str, stage: str, revision: str = "") -> Built:
    """What was built of a stage, of `revision` or the working tree; empty if nothing, or if git has another build's."""
    published = Built(**_object(root, revision, stage_path(run, PUBLISHED, stage)))
    here = Built(**{key: _object(root, revision, stage_path(run, kind, stage)) for key, kind in KINDS.items()})
    if published and here == published:
        return here
    lock = text_at(root, revision, "dvc.lock")
    entry = locked_entries(lock).get(f"{stage}@{run}" if run else stage, {}) if lock else {}
    if published and (not lock or belongs(published.record, entry)):
        return published
    return here or Built(**{key: _cached(root, stage_path(run, kind, stage), entry) for key, kind in KINDS.items()})


def stages_of(root: Path, run: str) -> list[str]:
    """The stages of a run or base model that left a record in the working tree, in alphabetical order."""
    folder = root / "data" / run
    return sorted({path.stem for kind in (KINDS[RECORD], PUBLISHED) for path in (folder / kind).glob("*.json")})


def evaluated(root: Path, runs: Iterable[str]) -> list[str]:
    """Those of the runs that were evaluated; CastawayError if none was."""
    if found := [run for run in runs if built(root, run, "evaluate").figures]:
        return found
    raise CastawayError(f"no run of {root.resolve()} has an evaluation; `dvc repro` builds them")


def from_stage(root: Path, run: str, stage: str, build: Callable[[Mapping[str, Any]], Any]) -> Any:
    """The result of `build` for the figures of a stage in the working tree; CastawayError if one is missing."""
    figures = built(root, run, stage).figures
    if not figures:
        address = f"{stage}@{run}"
        raise CastawayError(f"there are no figures of {address} in {root.resolve()}; `dvc repro {address}` builds them")
    return read_as(root / stage_path(run, FIGURES, stage), figures, build)


def belongs(record: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether a record is of the build in an entry of `dvc.lock`: of its inputs or, after `dvc commit`, its outputs."""
    outs = {out["path"]: str(out.get("md5", "")) for out in entry.get("outs", [])}
    made = record.get("outputs") or {}
    same = bool(made) and all(outs.get(path) == md5 for path, md5 in made.items())
    return bool(entry) and (record.get("stage_key") == stage_key(entry) or same)


def stage_key(entry: Mapping[str, Any]) -> str:
    """The stage key of an entry in `dvc.lock`: SHA-256 over its command, its inputs by content, its outputs by name."""
    identity = {**entry, "outs": [out["path"] for out in entry.get("outs", [])]}
    return hashlib.sha256(json.dumps(_without_sizes(identity), sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=4)
def locked_entries(text: str) -> dict[str, Any]:
    try:
        content = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise CastawayError(f"dvc.lock is not YAML ({error.__class__.__name__}); restore it with git") from None
    return dict((content or {}).get("stages", {}))


def text_at(root: Path, revision: str, path: str) -> str | None:
    """A file as it is at a revision, in the working tree if that is empty; None if it is not there."""
    if not revision:
        return (root / path).read_text("utf-8") if (root / path).is_file() else None
    # `--end-of-options`: a revision that begins with a dash is none of git's options.
    return git(root, "show", "--end-of-options", f"{revision}:{path}")


class Addressed:
    address: str  # DVC's name of the stage: `sft@marooned`

    @property
    def name(self) -> str:
        return self.address.partition("@")[0]

    @property
    def run(self) -> str:
        """The run or base model behind the `@`; empty without one."""
        return self.address.partition("@")[2]


@dataclass(frozen=True)
class Locked(Addressed):
    """A stage as `dvc.lock` records it."""

    address: str
    entry: dict[str, Any]
    record: Mapping[str, Any]  # the record of the run that made it; empty if there is none
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The figures of that run; empty if the record is of another build."""

    @property
    def key(self) -> str:
        return stage_key(self.entry)

    @property
    def outs(self) -> dict[str, str]:
        """Path to md5 of the stage's outputs, without the run records, which differ from run to run."""
        pairs = {out["path"]: str(out.get("md5", "")) for out in self.entry.get("outs", [])}
        return {path: md5 for path, md5 in pairs.items() if Path(path).parent.name != "runs"}

    @property
    def artifact(self) -> str:
        return f"data/{self.run}/{self.name}" if self.run else f"data/{self.name}"

    @property
    def dependencies(self) -> dict[str, str]:
        pairs = {dep["path"]: str(dep.get("md5", "")) for dep in self.entry.get("deps", [])}
        return {path: md5 for path, md5 in pairs.items() if path.startswith("data/")}

    @property
    def params(self) -> dict[str, Any]:
        """Dotted key to value: the parameters that it depends on, with those that its run sets differently."""
        shared, own = dict[str, Any](), dict[str, Any]()
        for key, value in flatten(self.entry.get("params", {}).get("params.yaml", {})).items():
            name = key.removeprefix(f"tasks.{self.run}.")
            if name != key and name.partition(".")[0] in STAGE_SECTIONS:
                own.update({name: value} if "." in name else {})
            else:
                shared[key] = value
        return {**shared, **own}

    @property
    def recorded(self) -> bool:
        return bool(self.record) and self.record.get("stage_key") == self.key

    @property
    def known(self) -> bool:
        """Whether the record is of a run that made these outputs; after `dvc commit`, perhaps with other inputs."""
        return belongs(self.record, self.entry)


def locked_stages(root: Path) -> dict[str, Locked]:
    """Every stage of `dvc.lock`, by address; CastawayError if there is none, or it is not YAML."""
    lock = text_at(root, "", "dvc.lock")
    if lock is None:
        raise CastawayError(
            f"there is no dvc.lock in {root.resolve()}, so nothing has been built yet; run `dvc repro` in a clone"
        )
    stages = {}
    for address, entry in locked_entries(lock).items():
        name, _, run = address.partition("@")
        made = built(root, run, name)
        stages[address] = Locked(address, entry, made.record, made.figures if belongs(made.record, entry) else {})
    return stages


def from_file(path: Path, build: Callable[[Figures], Any]) -> Any:
    """The result of `build` for the content of a file; CastawayError names a file that is missing or lacks a figure."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError(f"{path} does not exist; `dvc repro` builds it") from None
    except (OSError, ValueError) as error:
        raise CastawayError(f"{path} cannot be read as JSON: {' '.join(str(error).split())}") from None
    return read_as(path, content, build)


def read_as(path: Path, content: Any, build: Callable[[Any], Any]) -> Any:
    try:
        return build(content)
    except (CastawayError, KeyError, TypeError, ValueError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
        raise CastawayError(f"{path} is not what the stage writes: {reason}") from None


def _object(root: Path, revision: str, path: str) -> dict[str, Any]:
    text = text_at(root, revision, path)
    try:
        content = json.loads(text) if text else {}
    except ValueError as error:
        place = f"{revision}:{path}" if revision else root / path
        raise CastawayError(f"{place} cannot be read as JSON: {' '.join(str(error).split())}") from None
    return content if isinstance(content, dict) else {}


def _cached(root: Path, path: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    md5 = next((str(out.get("md5", "")) for out in entry.get("outs", []) if out["path"] == path), "")
    return _object(root / CACHE / md5[:2], "", md5[2:]) if md5 else {}


def _without_sizes(value: Any) -> Any:
    """The value without sizes and file counts: the md5 already says what the content is."""
    if isinstance(value, list):
        return [_without_sizes(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _without_sizes(item) for key, item in value.items() if key not in ("size", "nfiles")}
    return value
