"""All settings of the pipeline, with types; `params.yaml` is read here and nowhere else.

There is one frozen model per section. A pipeline stage reads the section with its own name (`StageSection`); a run can
override keys of such a section in its block under `tasks`. An unknown, missing or wrong key is an error before anything
is built: one line that names the key, the value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, ValidationError, model_validator

from castaway.config.bases import Base, BaseTextParams, kind_of_base
from castaway.config.mistakes import Location, explain, shown, unknown
from castaway.config.ppo import PpoParams
from castaway.config.section import (
    NaturalNumber,
    PositiveInteger,
    Section,
    StageSection,
)
from castaway.config.sections import (
    BaseParams,
    CorrectionSftParams,
    DatasetParams,
    EvaluateParams,
    GateParams,
    MergeParams,
    RewardModelParams,
    SftParams,
    TeacherParams,
)
from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError

GameModel = Callable[[str], type[Section]]
"""Maps the name of a task to the model of its `game` section.

It raises CastawayError if there is no such task.
"""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""The name of a run or of a base model; also the name of its folder under `data/`."""


class RunParams(Section):
    """A run: its task, its base model, its game, and the settings that it overrides."""

    task: str
    """The name of the task's entry point."""
    base: str
    """The base model that the run starts from; one of `bases`."""
    game: SerializeAsAny[Section]
    """The settings of the game; each task has its own model."""
    gate: GateParams = GateParams()
    """When its merged model becomes the champion."""
    overrides: dict[str, dict[str, Any]]
    """Section name to the keys that this run overrides; in `params.yaml` these sections stand next to `game`."""


class Params(Section):
    """The whole of `params.yaml`."""

    tasks: Annotated[dict[Name, RunParams], Field(min_length=1)]
    """The runs that `dvc repro` builds, by name; a task can have several."""
    seed: NaturalNumber
    device: Literal["cpu", "cuda", "mi300x"]
    """The device that the GPU stages are pinned to. No result depends on it, and `host.yaml` overrides it."""
    threads: PositiveInteger
    """Number of PyTorch threads; results are reproducible to the byte only for the same number."""
    bases: Annotated[dict[Name, Base], Field(min_length=1)]
    """The base models, by name."""
    base: BaseParams
    teacher: TeacherParams
    dataset: DatasetParams
    sft: SftParams
    reward_model: RewardModelParams
    ppo: PpoParams
    correction_sft: CorrectionSftParams
    evaluate: EvaluateParams
    merge: MergeParams

    @model_validator(mode="after")
    def _known_bases(self) -> Params:
        for name, run in self.tasks.items():
            if run.base not in self.bases:
                raise ValueError(f"tasks.{name}.base is {run.base!r}, expected one of bases: {', '.join(self.bases)}")
            if name in self.bases:
                raise ValueError(
                    f"tasks.{name} has the name of a base model, expected another: both are folders in data/"
                )
            if self.bases[run.base].dtype == "nf4":
                self._check_samplers(name, run)
        return self

    def _check_samplers(self, name: str, run: RunParams) -> None:
        """Weights of 4 bits are not for vLLM: it would hold them in 16, beside the trainer's."""
        for section, common in (("ppo", self.ppo), ("evaluate", self.evaluate)):
            if run.overrides.get(section, {}).get("sampler", common.sampler) == "vllm":
                raise ValueError(
                    f"{section}.sampler is 'vllm', expected 'here' for tasks.{name}: bases.{run.base}.dtype is 'nf4'"
                )

    def for_run(self, name: str) -> Params:
        """The parameters with the overrides of a run applied; unchanged if there is no such run."""
        run = self.tasks.get(name)
        changed = run.overrides if run else {}
        return self.model_copy(update={section: self._changed(section, keys) for section, keys in changed.items()})

    def _changed(self, section: str, keys: Mapping[str, Any]) -> Section:
        """A stage's section with some keys replaced; a key that is itself a section is replaced as a whole."""
        common: Section = getattr(self, section)
        return type(common).model_validate({**common.model_dump(), **keys})


STAGE_SECTIONS = tuple(
    name
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, StageSection)
)
"""The sections with keys that a run can override."""


def load_params(path: Path, game_model: GameModel) -> Params:
    """Read and check a `params.yaml`.

    Args:
        path: the file.
        game_model: returns the model of a task's `game` section; see `castaway.tasks.registry`.

    Raises:
        CastawayError: one line that names the file and, if it is about a key, the key and its value.
    """
    content = read_yaml(path)
    if content is None:
        raise CastawayError(f"{path.name} is empty, expected the sections {', '.join(Params.model_fields)}")
    if not isinstance(content, dict):
        raise CastawayError(f"{path.name} holds a {type(content).__name__}, expected a mapping of sections")
    try:
        params = _validated(Params, _with_games(content, game_model), ())
        # Overrides are checked with the section that they change, so that rules between keys hold for the run as well.
        for name, run in params.tasks.items():
            for section, keys in run.overrides.items():
                model = type(getattr(params, section))
                _validated(model, {**getattr(params, section).model_dump(), **keys}, ("tasks", name, section))
    except CastawayError as error:
        raise CastawayError(f"{path.name}: {error}") from None
    return params


def _with_games(content: Mapping[str, Any], game_model: GameModel) -> dict[str, Any]:
    """The content with each `game` checked by its task's model, and each run's overrides collected in one mapping."""
    checked = dict(content)
    if isinstance(runs := content.get("tasks"), dict):
        checked["tasks"] = {name: _run(run, game_model, ("tasks", name)) for name, run in runs.items()}
    if isinstance(bases := content.get("bases"), dict):
        checked["bases"] = {name: _base(base, game_model, ("bases", name)) for name, base in bases.items()}
    return checked


def _run(run: Any, game_model: GameModel, place: Location) -> Any:
    if not isinstance(run, dict):
        return run
    overrides = {key: run[key] for key in STAGE_SECTIONS if key in run}
    own = {key: value for key, value in run.items() if key not in overrides}
    keys = [key for key in RunParams.model_fields if key != "overrides"]
    for key in own:
        if key not in keys:
            raise CastawayError(unknown((*place, key), [*keys, *STAGE_SECTIONS]))
    for section, changed in overrides.items():
        if not isinstance(changed, dict):
            raise CastawayError(f"{'.'.join(map(str, place))}.{section} is {shown(changed)}, expected a mapping")
    return {**_with_game(own, own.get("task"), game_model, place), "overrides": overrides}


def _base(base: Any, game_model: GameModel, place: Location) -> Any:
    """A base model's block as the model of its kind, so that a mistake is explained in the words of that kind."""
    if not isinstance(base, dict):
        return _validated(BaseTextParams, base, place)
    kind = kind_of_base(base)
    if kind is None:
        raise CastawayError(
            f"{'.'.join(map(str, place))} is {shown(base)}, expected one of text, hub, path and package among its keys"
        )
    if isinstance(texts := base.get("text"), dict):
        texts = {task: _with_game(text, task, game_model, (*place, "text", task)) for task, text in texts.items()}
        base = {**base, "text": texts}
    return _validated(kind, base, place)


def _with_game(block: Any, task: Any, game_model: GameModel, place: Location) -> Any:
    """A block with its `game` replaced by the task's model; a malformed block is left for pydantic to report."""
    if not (isinstance(block, dict) and "game" in block):
        return block
    if not isinstance(task, str):
        return {**block, "game": Section()}
    try:
        model = game_model(task)
    except CastawayError as error:
        raise CastawayError(f"{'.'.join(map(str, place))}: {error}") from None
    return {**block, "game": _validated(model, block["game"], (*place, "game"))}


def _validated(model: type[Section], content: Any, place: Location) -> Any:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise CastawayError(explain(model, error, place)) from None
