"""Shows which MLflow runs made an artifact in `data/`, back to the base model.

    python -m flows lineage marooned            ancestry of the run's final artifacts, which no other stage reads
    python -m flows lineage marooned/ppo        ancestry of one artifact
    python -m flows lineage sync                tag each MLflow run with the hashes of its outputs

Only files in git are needed: `dvc.lock` says which inputs an artifact was made from, and the run records say by which
MLflow run. `sync` adds missing tags, for example of a run that could not reach MLflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from castaway.errors import CastawayError
from flows import environment, records
from flows.declared import stage_key

WIDTH = 240
"""Characters of a line. It may be wider than the screen, but hashes are never cut and can be copied."""


@dataclass(frozen=True)
class Locked:
    """A stage as `dvc.lock` records it."""

    address: str
    entry: dict[str, Any]
    record: dict[str, Any]
    """The record of the run that made it; empty if there is none."""

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
        name, _, task = self.address.partition("@")
        return f"data/{task}/{name}" if task else f"data/{name}"

    @property
    def dependencies(self) -> dict[str, str]:
        """Path to md5 of the data that the stage read."""
        pairs = {dep["path"]: str(dep.get("md5", "")) for dep in self.entry.get("deps", [])}
        return {path: md5 for path, md5 in pairs.items() if path.startswith("data/")}


def main(targets: Sequence[str]) -> int:
    """Print the ancestry of the target, or sync the tags.

    Raises:
        CastawayError: not exactly one target is given, or it is not in `dvc.lock`.
    """
    root = environment.find_root()
    stages = locked_stages(root)
    if len(targets) != 1:
        raise CastawayError("lineage needs one target: a run, as in `marooned`, an artifact `marooned/ppo`, or `sync`")
    if targets[0] == "sync":
        environment.silence(root)
        return sync(stages)
    from rich.console import Console

    for address in wanted(stages, targets[0]):
        Console(width=WIDTH).print(tree(stages, address))
    return 0


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
        stages[address] = Locked(address, entry, records.read_json(records.record_path(root, task, name)))
    return stages


def wanted(stages: dict[str, Locked], target: str) -> list[str]:
    """The addresses for a target: one for `marooned/ppo`; for `marooned`, the stages whose output no other reads.

    Raises:
        CastawayError: `dvc.lock` has no such stage or run.
    """
    task, _, name = target.strip("/").removeprefix("data/").partition("/")
    address = f"{name}@{task}" if name else task
    if address in stages:
        return [address]
    of_task = [stage for stage in stages.values() if stage.address.endswith(f"@{task}")]
    read = {path for stage in of_task for path in stage.dependencies}
    found = [stage.address for stage in of_task if stage.artifact not in read] if not name else []
    if not found:
        raise CastawayError(f"dvc.lock has no stage or run {target}; it has {', '.join(sorted(stages))}")
    return found


def tree(stages: dict[str, Locked], address: str) -> Any:
    """The ancestry of a stage as a `rich` tree. A stage that occurs again is named without its ancestors."""
    from rich.tree import Tree

    makers = {path: stage for stage in stages.values() for path in stage.outs}
    shown: set[str] = set()

    def grow(stage: Locked, branch: Any) -> Any:
        again = stage.address in shown
        shown.add(stage.address)
        twig = Tree(label(stage, again)) if branch is None else branch.add(label(stage, again))
        if not again:
            for path, md5 in stage.dependencies.items():
                maker = makers.get(path)
                if maker is None:  # no stage makes it
                    continue
                if maker.outs[path] != md5:
                    # The maker was built again since, alone; its ancestors need not be those of what was read.
                    twig.add(f"[bold]{path}[/bold]  md5 {md5}  made before the one that is there now; run unknown")
                else:
                    grow(maker, twig)
        return twig

    return grow(stages[address], None)


def label(stage: Locked, again: bool) -> str:
    """One line about a stage: its artifact and hash, the MLflow run, the commit of the code, and the time."""
    if again:
        return f"[dim]{stage.artifact} (see above)[/dim]"
    record = stage.record
    md5 = stage.outs.get(stage.artifact, "")
    made = "run unknown"
    if record:
        revision, _, dirty = str(record.get("revision", "")).partition("+")
        commit = f"{revision[:10]}{'+dirty' if dirty else ''}"
        made = f"run {record.get('run_id') or 'none'}  commit {commit}  {record.get('began', '')}"
        if record.get("stage_key") != stage.key:
            made += "  [yellow](the record is for other inputs)[/yellow]"
    return f"[bold]{stage.artifact}[/bold]  md5 {md5}  {made}"


def sync(stages: dict[str, Locked]) -> int:
    """Tag each MLflow run with `dvc.out.PATH = md5`, so that it can be found by its outputs."""
    from mlflow.entities import RunTag
    from mlflow.exceptions import MlflowException

    from flows.store import client

    mlflow, tagged, unknown = client(), 0, []
    for stage in stages.values():
        run_id = stage.record.get("run_id")
        if not run_id or stage.record.get("stage_key") != stage.key:
            unknown.append(stage.address)
            continue
        try:
            mlflow.log_batch(run_id, tags=[RunTag(f"dvc.out.{path}", md5) for path, md5 in stage.outs.items()])
            if mlflow.get_run(run_id).info.status != "FINISHED":  # MLflow was away when the stage ended
                mlflow.set_terminated(run_id, "FINISHED")
            tagged += 1
        except MlflowException:  # the run was made on another machine, whose MLflow store this is not
            unknown.append(stage.address)
    print(f"tagged {tagged} runs" + (f"; no run here for {', '.join(unknown)}" if unknown else ""))
    return 0
