"""All settings of the pipeline, with types; `params.yaml` is read here and nowhere else.

There is one frozen model per section. A pipeline stage reads the section with its own name (`StageSection`); a run can
override keys of such a section in its block under `tasks`. An unknown, missing or wrong key is an error before anything
is built: one line that names the key, the value and what was expected.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, cast

from pydantic import Field, SerializeAsAny, ValidationError, model_validator

from castaway.config import sections
from castaway.config.bases import Base, BaseTextParams, PathParams, kind_of_base
from castaway.config.errors import CastawayError
from castaway.config.mistakes import Location, explain, shown, unknown
from castaway.config.ppo import PpoParams
from castaway.config.section import DeviceKind, Natural, PositiveInteger, Section, StageSection
from castaway.config.yaml_file import read_yaml

GameModel = Callable[[str], type[Section]]
"""Maps the name of a task to the model of its `game` section; CastawayError if there is no such task."""
CodeOf = Callable[[Sequence[str]], str]
"""Maps names of tasks to the folder that dvc.yaml watches for their code; CastawayError if no one folder holds it."""
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""The name of a run or of a base model; also the name of its folder under `data/`."""


class RunParams(Section):
    """A run: its task, its base model, its game, and the settings that it overrides."""

    task: str
    """The name of the task's entry point."""
    base: str
    """The base model that the run starts from; one of `bases`."""
    code: str
    """The folder of the task's code, which the stages that make the task depend on."""
    game: SerializeAsAny[Section]
    """The settings of the game; each task has its own model."""
    gate: sections.GateParams = sections.GateParams()
    """When its merged model becomes the champion."""
    overrides: dict[str, dict[str, Any]]
    """Section name to the keys that this run overrides; in `params.yaml` these sections stand next to `game`, all of
    them, since DVC cannot depend on a section that is not there."""


class Params(Section):
    tasks: Annotated[dict[Name, RunParams], Field(min_length=1)]
    """The runs that `dvc repro` builds, by name; a task can have several."""
    seed: Natural
    device: DeviceKind
    """The device that the GPU stages are pinned to. No result depends on it, and `host.yaml` overrides it."""
    threads: PositiveInteger
    """Number of PyTorch threads; results are reproducible to the byte only for the same number."""
    bases: Annotated[dict[Name, Base], Field(min_length=1)]
    """The base models, by name."""
    base: sections.BaseParams
    teacher: sections.TeacherParams
    dataset: sections.DatasetParams
    sft: sections.SftParams
    reward_model: sections.RewardModelParams
    ppo: PpoParams
    correction_sft: sections.CorrectionSftParams
    evaluate: sections.EvaluateParams
    merge: sections.MergeParams

    @model_validator(mode="after")
    def _known_bases(self) -> Self:
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

    @model_validator(mode="after")
    def _room_to_copy(self) -> Self:
        tiny = self.base
        small = tiny.layers < 2 or tiny.heads < 4 or tiny.hidden_size < 8 * tiny.heads
        for name, base in self.bases.items():
            if small and isinstance(base, BaseTextParams) and base.attention == "copying":
                raise ValueError(
                    f"bases.{name}.attention is 'copying', expected 'drawn' unless base has at least 2 layers, 4 heads "
                    f"and a hidden_size of 8 for each head"
                )
        return self

    def _check_samplers(self, name: str, run: RunParams) -> None:
        """Weights of 4 bits are not for vLLM: it would hold them in 16, beside the trainer's."""
        for section, block in (("ppo", "rollout"), ("evaluate", "")):
            values: Any = merged(getattr(self, section), run.overrides.get(section, {}))
            values = values[block] if block else values
            if isinstance(values, Mapping) and values.get("sampler") == "vllm":
                place = ".".join(filter(None, (section, block)))
                raise ValueError(
                    f"{place}.sampler is 'vllm', expected 'in_process' for tasks.{name}: "
                    f"bases.{run.base}.dtype is 'nf4'"
                )

    def for_run(self, name: str) -> Self:
        """The parameters with the overrides of a run applied; unchanged if there is no such run."""
        run = self.tasks.get(name)
        changed: dict[str, Section] = {}
        for section, keys in run.overrides.items() if run else ():
            common: Section = getattr(self, section)
            changed[section] = type(common).model_validate(merged(common, keys))
        return self.model_copy(update=changed)


def merged(common: Section, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a section with those of a run, which needs to name only what it changes, in blocks too."""
    values = common.model_dump()
    for key, value in keys.items():
        block = getattr(common, key, None)
        values[key] = merged(block, value) if isinstance(block, Section) and isinstance(value, Mapping) else value
    return values


STAGE_SECTIONS = tuple(
    name
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, StageSection)
)
"""The sections with keys that a run can override."""
MADE_BY = "castaway/bases/sources.py"  # stands for the code of a model from the Hub or a package: how it is fetched


def load_params(path: Path, game_model: GameModel, code_of: CodeOf) -> Params:
    """Read and check a `params.yaml`; any mistake is a CastawayError of one line that names the file and the key."""
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
                common = getattr(params, section)
                _validated(type(common), merged(common, keys), ("tasks", name, section))
        for place, named, wanted in _code(params, code_of):
            if named != wanted:
                raise CastawayError(f"{place}.code is {shown(named)}, expected {wanted}")
    except CastawayError as error:
        raise CastawayError(f"{path.name}: {error}") from None
    return params


def _code(params: Params, code_of: CodeOf) -> Iterator[tuple[str, str, str]]:
    """For each run and base model: its place, the `code` that it names, and the right one."""
    for name, run in params.tasks.items():
        yield f"tasks.{name}", run.code, code_of([run.task, *getattr(run.game, "tasks", ())])
    for name, base in params.bases.items():
        made_by = base.path if isinstance(base, PathParams) else MADE_BY
        yield f"bases.{name}", base.code, code_of(base.tasks) if base.tasks else made_by


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
    keys, name = [key for key in RunParams.model_fields if key != "overrides"], ".".join(map(str, place))
    for key in own:
        if key not in keys:
            raise CastawayError(unknown((*place, key), [*keys, *STAGE_SECTIONS]))
    if missing := [section for section in STAGE_SECTIONS if section not in run]:
        blocks = ", ".join(f"`{section}: {{}}`" for section in missing)
        raise CastawayError(f"{name} has no {', '.join(missing)}; add {blocks} to it")
    for section, changed in overrides.items():
        if not isinstance(changed, dict):
            raise CastawayError(f"{name}.{section} is {shown(changed)}, expected a mapping")
    return {**_with_game(own, own.get("task"), game_model, place), "overrides": overrides}


def _base(base: Any, game_model: GameModel, place: Location) -> Any:
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


# What a stage may read: if it read more than dvc.yaml lists for it, DVC would keep its old result after a change there


class UndeclaredError(CastawayError, AttributeError):
    """A stage reads what dvc.yaml does not list for it."""


class View:
    """The part of a section, or of a mapping of sections, that a stage depends on; any other key is an error."""

    def __init__(self, address: str, place: str, values: Mapping[str, Any]) -> None:
        """`place` is the dotted key of the section, empty for the whole file; `values` may be read."""
        # Directly into __dict__, because __setattr__ refuses; a key found there never reaches __getattr__.
        self.__dict__.update(values)
        self.__dict__["_address"], self.__dict__["_place"] = address, place

    def __getattr__(self, name: str) -> Any:
        # pickle and copy look up private names before __dict__ is filled; `self._place` would then recurse for ever.
        if name.startswith("_"):
            raise AttributeError(name)
        place = f"{self._place}.{name}" if self._place else name
        raise UndeclaredError(f"{self._address} reads {place}, which dvc.yaml does not list in its `params`")

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set: parameters do not change while a stage runs")

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__dict__ if not name.startswith("_"))


def restrict(params: Params, declared: Collection[str], address: str) -> Params:
    """A view of the parameters with only the `declared` keys, dotted as in dvc.yaml: `seed`, `ppo`, `ppo.lora`."""
    return cast(Params, _restricted(params, declared, address, ""))


def restricted_values(view: Any) -> Any:
    """The readable parameters of a view as nested dictionaries, with the overrides of the run applied."""
    if isinstance(view, View):
        return {name: restricted_values(view[name]) for name in view}
    return view.model_dump() if isinstance(view, Section) else view


def _restricted(section: Any, declared: Collection[str], address: str, place: str) -> Any:
    kept: dict[str, Any] = {}
    for name, value in section.items() if isinstance(section, Mapping) else section:
        key = f"{place}.{name}" if place else name
        if key in declared:
            kept[name] = value
        elif any(one.startswith(f"{key}.") for one in declared):
            kept[name] = _restricted(value, declared, address, key)
    return View(address, place, kept)
