"""Every knob of the pipeline, typed: the only place that reads `params.yaml`.

One frozen model per section. A stage is driven by the section of its name (`StageSection`); a run of a task may set
keys of such a section differently, in its own block under `tasks`. A key that is unknown, missing or wrong stops
everything before anything is built, in one line that names the key, the value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, ValidationError, model_validator

from castaway.config.mistakes import Location, explain, shown, unknown
from castaway.config.section import (
    Fraction,
    NaturalNumber,
    NonNegative,
    Positive,
    PositiveInteger,
    Section,
    StageSection,
)
from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError

GameModel = Callable[[str], type[Section]]
"""From the name of a task to the model of its own section of the parameters.

It raises CastawayError where there is no such task.
"""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""Of a run or of a base model: a folder under `data/`."""


class LoraParams(Section):
    """A low-rank adapter, as PEFT spells it."""

    rank: PositiveInteger
    """Rank of the two factors."""
    alpha: Positive
    """Scale: the update is multiplied by alpha / sqrt(rank) (rank-stabilised LoRA)."""


class BaseParams(Section):
    """What all base models have in common."""

    model: Annotated[str, Field(min_length=1)]
    """`tiny`, or the name of a Hugging Face model."""
    revision: str | None
    """The hub commit to pin; must be given for a hub model, and null for `tiny`."""
    vocabulary: Annotated[int, Field(ge=300, le=65536)]
    """Tokens of the tiny tokenizer, special and byte tokens included."""
    hidden_size: PositiveInteger
    """Width of the tiny model."""
    layers: PositiveInteger
    """Depth of the tiny model."""
    heads: PositiveInteger
    """Attention heads of the tiny model."""
    slips: Fraction
    """Share of the replies in that text that break the format, as an instruct model's would."""
    carelessness: Fraction
    """Share of the turns in that text in which a sailor does something aimless."""
    practice: NaturalNumber
    """Further answers to each situation, for reading practice."""
    epochs: PositiveInteger
    batch_size: PositiveInteger
    learning_rate: Positive

    @model_validator(mode="after")
    def _pinned(self) -> BaseParams:
        if (self.model == "tiny") == (self.revision is not None):
            raise ValueError(f"revision is {self.revision!r}, expected a pinned commit for a hub model, null for tiny")
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size is {self.hidden_size}, expected a multiple of heads ({self.heads})")
        return self


class TextParams(Section):
    """Text of one task for pretraining: scripted episodes of its game."""

    episodes: PositiveInteger
    """Scripted episodes that are read."""
    game: SerializeAsAny[Section]
    """The task's own section: the same, if the base model is to know what it will be trained in."""


class BaseTextParams(Section):
    """What is one base model's own: the text that it is pretrained on, and how it sees words."""

    text: Annotated[dict[str, TextParams], Field(min_length=1)]
    """What it reads, by task."""
    synthetic_share: Fraction
    """Share of the situations in that text that nobody played, in tasks that can make some up."""
    whole_words: bool
    """Whether every word that the tasks name is a token of its own, on top of `base.vocabulary`."""
    attention: Literal["drawn", "copying"]
    """Where attention begins: drawn at random, or able to copy (`castaway/models/copying.py`)."""


class TeacherParams(Section):
    """Who judges the student's moves while it trains."""

    kind: Literal["rules", "openai"]
    """The rules of the game alone, or a model behind an OpenAI-compatible server, which the rules keep in bounds."""
    url: Annotated[str, Field(pattern=r"^https?://\S+/v1$")]
    """The server. Its key, if it wants one, comes from the environment: CASTAWAY_TEACHER_KEY."""
    model: Annotated[str, Field(min_length=1)]
    """The name that the server knows the model by."""
    cascade: bool
    """Ask the model only about what the rules find fault with."""
    override_legal: bool
    """Execute the model's action instead of a legal one that it calls invalid."""
    on_outage: Literal["rules", "pause"]
    """When the server stays away: go on with the verdicts of the rules, marked as theirs, or stop and wait to go on."""
    concurrency: PositiveInteger
    """Questions that are open at one time."""
    attempt_seconds: Positive
    """How long one try may take."""
    deadline_seconds: Positive
    """How long a question may take, with all its tries."""
    patience_seconds: Positive
    """How long nothing but failures is borne before the server counts as down."""
    answer_tokens: PositiveInteger
    """The longest answer."""


class DatasetParams(StageSection):
    """Scripted play: demonstrations, preference pairs, and the split of the task ids."""

    episodes: PositiveInteger
    """Episodes of ordinary play that demonstrations are drawn from."""
    demonstrations: PositiveInteger
    """Turns kept for SFT."""
    pairs: PositiveInteger
    """Preference pairs for the reward model, training share."""
    held_out_pairs: PositiveInteger
    """Preference pairs from other episodes, for the reward model's report."""
    plain_share: Fraction
    """Share of the pairs whose answers bear no reasoning, so that the actions themselves are judged."""
    alike_share: Fraction
    """Share of the training pairs whose actions begin with the same word, and differ in the details."""
    carelessness: Fraction
    """Share of an ordinary sailor's turns in which it does something aimless."""
    synthetic_share: Fraction
    """Share of the training pairs' situations that nobody played, in tasks that make such situations and pairs."""
    written: NaturalNumber
    """Situations that a served teacher (`teacher.kind: openai`) writes, with their answers, in tasks that ask for some;
    scripted play gives the rest of the demonstrations and pairs."""


class SftParams(StageSection):
    """Supervised fine-tuning on the demonstrations."""

    epochs: Positive
    batch_size: PositiveInteger
    learning_rate: Positive
    lora: LoraParams


class RewardModelParams(StageSection):
    """The reward model: a scalar head trained on preference pairs (Bradley-Terry)."""

    epochs: Positive
    batch_size: PositiveInteger
    learning_rate: Positive
    lora: LoraParams


class ReplayParams(Section):
    """Failed episodes that are played again, of any task."""

    share: Fraction
    """Share of the draws that are replays."""
    capacity: PositiveInteger
    """At most so many failures are kept; the oldest makes room."""
    mastery: PositiveInteger
    """Successes in a row after which an episode is not played again."""


class SelfPlayParams(Section):
    """Earlier policies of the student, which play the others in self-play."""

    size: PositiveInteger
    """At most so many are kept; the oldest makes room. The first one is the SFT policy."""
    interval: PositiveInteger
    """Steps after which the student's policy of that moment joins them."""


class PpoParams(StageSection):
    """PPO on whole episodes, with a correction-SFT pass now and then."""

    steps: PositiveInteger
    """Rollout-and-update rounds."""
    episodes_per_step: PositiveInteger
    """Episodes that are played side by side: to their end, or as far as `turns_per_step` goes."""
    turns_per_step: PositiveInteger | None
    """Turns after which a rollout is cut off; its episodes go on in the next one. null plays whole episodes."""
    sampler: Literal["here", "vllm"]
    """Who draws the replies: the trainer, or a vLLM server that the stage starts beside itself, for models of billions
    of parameters; with vllm, results are not reproducible to the byte."""
    sampler_gibibytes: PositiveInteger
    """Memory for the keys and values of a vLLM sampler, which shares its accelerator with the trainer."""
    lanes: PositiveInteger
    """Groups of episodes: while the teacher judges one, the policy plays another. 2 pays with a slow teacher."""
    ahead: bool
    """Play the next rollout while the last one is learned from, so that the teacher judges all the time; its words are
    drawn from the weights of one update before."""
    replay: ReplayParams
    """How failed episodes come back."""
    curriculum: bool
    """Whether stages follow one another, as their episodes go; else each episode's is drawn by lot."""
    self_play: SelfPlayParams
    """Who plays the others where a stage names the opponent `self`."""
    epochs: PositiveInteger
    """Passes over a round's turns."""
    minibatch_turns: PositiveInteger
    tokens_per_pass: PositiveInteger
    """Padded tokens that one pass of the model may hold; a minibatch of more is split, and its gradients add up."""
    learning_rate: Positive
    value_learning_rate: Positive
    max_gradient_norm: Positive
    clip_range: Positive
    value_clip_range: Positive | None
    """How far a value may move in one update; null does not clip."""
    value_coefficient: NonNegative
    critic_warmup: NaturalNumber
    """Steps in the beginning in which only the value head learns."""
    entropy_coefficient: NonNegative
    kl_coefficient: NonNegative
    """Weight of the per-token KL penalty toward the SFT policy."""
    kl_in: Literal["reward", "loss"]
    """Where the penalty goes."""
    kl_estimator: Literal["k1", "k3"]
    """How the KL is estimated; in the loss only k3 has a gradient that means something."""
    adaptive_kl: Positive | None
    """KL in nats per token that the coefficient is steered toward; null leaves it as it is."""
    target_kl: Positive | None
    """KL of an update at which the rest of it is left out; null never does."""
    gamma_turn: Fraction
    lambda_turn: Fraction
    gamma_token: Fraction
    lambda_token: Fraction
    normalise_by: Literal["batch", "role"]
    """Whether advantages are set to mean 0 and deviation 1 over the whole batch or within each role."""
    temperature: Positive
    max_new_tokens: PositiveInteger
    importance_cap: Positive | None
    """Largest weight of a token that another engine drew; null trusts the sampler's log-probabilities."""
    reward_scale: Positive
    """The environment's rewards are multiplied by this before anything else."""
    penalty_weight: NonNegative
    """Weight of the teacher's process penalty."""
    reward_model_weight: NonNegative
    sft_interval: PositiveInteger
    """An SFT pass on fresh corrections is made every so many steps."""
    sft_minimum: PositiveInteger
    """... if at least this many corrections are waiting."""
    sft_learning_rate: Positive
    checkpoint_interval: PositiveInteger
    processes: PositiveInteger
    """How many processes train together, each on its share of the episodes; on GPUs, one for each."""
    lora: LoraParams

    @model_validator(mode="after")
    def _estimator(self) -> PpoParams:
        if self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_estimator is 'k1', expected 'k3' where kl_in is 'loss': the gradient of k1 means nothing"
            )
        if self.sampler == "vllm" and self.importance_cap is None:
            raise ValueError("importance_cap is null, expected a number where sampler is vllm, such as 2.0")
        if self.sampler == "vllm" and self.turns_per_step is not None:
            raise ValueError(f"turns_per_step is {self.turns_per_step}, expected null where sampler is vllm")
        if self.sampler == "vllm" and self.processes > 1:
            raise ValueError(f"processes is {self.processes}, expected 1 where sampler is vllm")
        return self


class CorrectionSftParams(StageSection):
    """SFT on what the student got wrong during PPO."""

    epochs: Positive
    batch_size: PositiveInteger
    learning_rate: NonNegative
    limit: PositiveInteger
    """At most so many of the newest corrections are used."""


class EvaluateParams(StageSection):
    """Play on held-out ids, without a teacher."""

    episodes: PositiveInteger
    further_episodes: PositiveInteger
    """Episodes of each seat beside the task's main one."""
    temperature: Positive
    best_of: PositiveInteger
    """Replies of which the reward model chooses one, in a second evaluation of each policy; 1 leaves it out."""
    replays: NaturalNumber
    """Whole episodes saved per policy."""


class MergeParams(StageSection):
    """The final weights as plain transformers files."""

    dtype: Literal["float32", "bfloat16"]
    tolerance: Positive
    """Largest allowed difference of the logits before and after merging."""


class RunParams(Section):
    """A run of a task: which task, from which base model, its game, and what it sets differently."""

    task: str
    """The task's name, as its entry point has it."""
    base: str
    """The base model that the run starts from, one of `bases`."""
    game: SerializeAsAny[Section]
    """The task's own section."""
    overrides: dict[str, dict[str, Any]]
    """Keys of stages' sections that this run sets differently; in the file they stand beside `game`, by stage."""


class Params(Section):
    """The whole of `params.yaml`."""

    tasks: Annotated[dict[Name, RunParams], Field(min_length=1)]
    """The runs that `dvc repro` builds, by name; several may be of one task."""
    seed: NaturalNumber
    device: Literal["cpu", "cuda", "mi300x"]
    """The kind of device that the GPU stages are pinned to."""
    threads: PositiveInteger
    """Torch threads; results are reproducible to the byte for a given number."""
    bases: Annotated[dict[Name, BaseTextParams], Field(min_length=1)]
    """The base models by name."""
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
                raise ValueError(f"tasks.{name} has the name of a base model, expected another: both are folders")
        return self

    def for_run(self, name: str) -> Params:
        """The parameters with what a run sets differently in its place; the same where there is no such run."""
        run = self.tasks.get(name)
        changed = run.overrides if run else {}
        return self.model_copy(update={section: self._changed(section, keys) for section, keys in changed.items()})

    def _changed(self, section: str, keys: Mapping[str, Any]) -> Section:
        """A stage's section with other values for some keys; a key that is a section itself is replaced as a whole."""
        shipped: Section = getattr(self, section)
        return type(shipped).model_validate({**shipped.model_dump(), **keys})


STAGE_SECTIONS = tuple(
    name
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, StageSection)
)
"""The sections of which a run may set keys differently."""


def load_params(path: Path, game_model: GameModel) -> Params:
    """Read and check a `params.yaml`.

    Args:
        path: the file.
        game_model: gives the model of a task's own section, see `castaway.tasks.registry`.

    Raises:
        CastawayError: with one line that names the file and, where there is one, the key and its value.
    """
    content = read_yaml(path)
    if content is None:
        raise CastawayError(f"{path.name} is empty, expected the sections {', '.join(Params.model_fields)}")
    if not isinstance(content, dict):
        raise CastawayError(f"{path.name} holds a {type(content).__name__}, expected a mapping of sections")
    try:
        params = _validated(Params, _with_games(content, game_model), ())
        for name, run in params.tasks.items():
            for section, keys in run.overrides.items():
                model = type(getattr(params, section))
                _validated(model, {**getattr(params, section).model_dump(), **keys}, ("tasks", name, section))
    except CastawayError as error:
        raise CastawayError(f"{path.name}: {error}") from None
    return params


def _with_games(content: Mapping[str, Any], game_model: GameModel) -> dict[str, Any]:
    """The content with every game checked by its task's own model, and what a run sets differently in one mapping."""
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
    if not (isinstance(base, dict) and isinstance(base.get("text"), dict)):
        return base
    texts = {task: _with_game(text, task, game_model, (*place, "text", task)) for task, text in base["text"].items()}
    return {**base, "text": texts}


def _with_game(block: Any, task: Any, game_model: GameModel, place: Location) -> Any:
    """A block whose `game` is read by the model of its task; where no task is named, that alone is the mistake."""
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
