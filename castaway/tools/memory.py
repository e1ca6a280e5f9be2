"""The memory that a run needs, by one formula, and whether this host has it.

Weights, an adapter in training, what the largest pass keeps for its backward pass, logits, keys and values of sampling,
a vLLM server that draws the replies on the same GPU, and the libraries. Each pass is taken to be as large as its
`tokens_per_pass` allows; what a heap leaves unused, and what the evaluation keeps of its episodes, is not counted.
docs/hardware.md has it next to measured peaks.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from castaway.config.bases import Base, BaseTextParams, PathParams
from castaway.config.params import Params
from castaway.processes.hardware import GIBIBYTE, Device, host_memory
from castaway.rollout.vllm import WORK_GIBIBYTES
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task

PROCESS, DRIVER = 0.9e9, 1.0e9
"""Bytes that Python, its libraries and a task take, measured; and of a GPU its driver and libraries, assumed."""
READ = 4  # bytes of a weight while the host reads a model for a GPU, or merges it
TRAINED = 16  # bytes of a trained weight in float32: itself, its gradient, and the two moments of Adam
NF4 = 0.516
"""Bytes of a weight in NF4: 4 bits, and 0.127 for the scales of blocks of 64, which are in 8 bits themselves."""
LOGITS = 2**25  # how many are in memory at the same time (`castaway.models.logprobs.CHUNK`)
LETTERS = 2.7
"""Letters of a token; with SmolLM2 2.6 (OpenSpiel), 2.9 (MAROONED) and 3.8 (STRICTBOT) in the full renderings."""
LOOKED_AT = 8  # episodes whose first prompts are looked at


@dataclass(frozen=True)
class Sizes:
    """A decoder of the Llama kind: attention with grouped keys and values, and a gated MLP."""

    layers: int
    hidden: int  # components of a hidden state
    intermediate: int  # components between the layers of the MLP
    queries: int  # components of the queries of all heads together
    keys: int  # components of the keys, or of the values, of all heads together
    vocabulary: int
    tied: bool  # whether the LM head uses the weights of the embedding

    @property
    def linear(self) -> int:
        """Weights in linear layers, without the head: those that an adapter is put on."""
        attention = 2 * self.hidden * (self.queries + self.keys)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def parameters(self) -> int:
        """All weights, tied ones once; biases, a fraction of a per mille, are left out."""
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return self.linear + embeddings + (2 * self.layers + 1) * self.hidden

    def adapter(self, rank: int) -> int:
        attention = 2 * (self.hidden + self.queries) + 2 * (self.hidden + self.keys)
        return self.layers * rank * (attention + 3 * (self.hidden + self.intermediate))

    def token(self, width: int) -> int:
        """Bytes of the keys and values of a token."""
        return 2 * width * self.keys * self.layers

    @classmethod
    def read(cls, config: Path) -> Self:
        settings: dict[str, Any] = json.loads(config.read_text("utf-8"))
        heads, hidden = settings["num_attention_heads"], settings["hidden_size"]
        head = settings.get("head_dim") or hidden // heads
        return cls(
            layers=settings["num_hidden_layers"],
            hidden=hidden,
            intermediate=settings["intermediate_size"],
            queries=heads * head,
            keys=(settings.get("num_key_value_heads") or heads) * head,
            vocabulary=settings["vocab_size"],
            tied=bool(settings.get("tie_word_embeddings")),
        )


KNOWN = {
    "smollm2-135m": Sizes(30, 576, 1536, 576, 192, 49152, True),
    "qwen2.5-0.5b": Sizes(24, 896, 4864, 896, 128, 151936, True),
    "qwen2.5-1.5b": Sizes(28, 1536, 8960, 1536, 256, 151936, True),
    "qwen2.5-3b": Sizes(36, 2048, 11008, 2048, 256, 151936, True),
    "llama-3.1-8b": Sizes(32, 4096, 14336, 4096, 1024, 128256, False),
}
"""Sizes of models by a part of their names, from their config.json."""


def sizes_of(params: Params, name: str, root: Path) -> Sizes | None:
    """The sizes of a base model; None if it is neither tiny nor built nor known."""
    block: Base = params.bases[name]
    if isinstance(block, BaseTextParams):
        tiny, width = params.base, params.base.hidden_size
        return Sizes(tiny.layers, width, 3 * width, width, width, tiny.vocabulary, True)
    for place in (root / "data" / name / "base", *([root / block.path] if isinstance(block, PathParams) else [])):
        if (place / "config.json").is_file():
            return Sizes.read(place / "config.json")
    told = f"{block.origin} {getattr(block, 'file', '')}".lower()
    return next((sizes for part, sizes in KNOWN.items() if part in told), None)


@dataclass(frozen=True)
class Need:
    """What a stage needs, in bytes."""

    address: str
    host: float
    device: float  # of the GPU; 0 on the CPU


def needs(params: Params, root: Path) -> list[Need]:
    """For each run, the stage that needs most; runs of a base model whose size is unknown are left out."""
    on_gpu, largest = params.device != "cpu", []
    for run, block in params.tasks.items():
        sizes = sizes_of(params, block.base, root)
        if sizes is None:
            continue
        own, base, peaks = params.for_run(run), params.bases[block.base], {}
        shared, longest = prompt_tokens(task_of(params, run))
        sft, reward_model, ppo = own.sft.lora.rank, own.reward_model.lora.rank, own.ppo.lora.rank
        for stage, rank in (("sft", sft), ("reward_model", reward_model), ("correction_sft", ppo), ("ppo", ppo)):
            limit = getattr(own, stage).tokens_per_pass
            # What all rows begin with is computed once.
            tokens = max(limit, longest) - (max(1, limit // longest) - 1) * shared
            samples = stage == "ppo" and own.ppo.rollout.sampler == "in_process"
            peaks[stage] = peak(sizes, base, on_gpu, rank, tokens, samples * own.ppo.rollout.tokens_per_pass)
        if own.ppo.rollout.sampler == "vllm":
            peaks["ppo"] += served(sizes, base, own.ppo.rollout.sampler_gibibytes)
        stage = max(peaks, key=lambda name: peaks[name])
        host = PROCESS + READ * sizes.parameters if on_gpu else peaks[stage]
        largest.append(Need(f"{stage}@{run}", host, peaks[stage] if on_gpu else 0))
    return largest


def peak(sizes: Sizes, base: Base, on_gpu: bool, rank: int, tokens: int, cached: int) -> float:
    """Bytes of a stage that trains an adapter; `tokens` of its largest pass, and `cached` with keys and values held."""
    wide = base.dtype == "float32"
    width = 4 if wide else 2
    linear = NF4 if base.dtype == "nf4" else width
    weights = linear * sizes.linear + width * (sizes.parameters - sizes.linear)
    # A copy of the linear layers with the adapter folded in; and what a heap keeps of the merging of an adapter.
    copies = 4 * sizes.linear * (wide and not base.gradient_checkpointing) + 2 * sizes.linear * (not on_gpu)
    # Of a block and token: the inputs of norms, products and attention. Norms compute in float32.
    block = width * (8 * sizes.hidden + 2 * sizes.keys + 4 * sizes.intermediate) + (0 if wide else 8 * sizes.hidden)
    kept = sizes.layers * width * sizes.hidden + 2 * block if base.gradient_checkpointing else sizes.layers * block
    logits = (16 if wide else 4) * min(LOGITS, tokens * sizes.vocabulary)
    # They are copied when a token is added.
    keys_and_values = 2 * cached * sizes.token(width)
    trained = TRAINED * sizes.adapter(rank)
    return (DRIVER if on_gpu else PROCESS) + weights + copies + trained + tokens * kept + logits + keys_and_values


def served(sizes: Sizes, base: Base, cache_gibibytes: int) -> float:
    """Bytes that a vLLM server of a model takes of its GPU, or of the host."""
    weights = (4 if base.dtype == "float32" else 2) * sizes.parameters
    return weights + (cache_gibibytes + WORK_GIBIBYTES) * GIBIBYTE


def prompt_tokens(task: Task[Any]) -> tuple[int, int]:
    """About how many tokens all prompts of a task begin with, and how many the longest has, as its episodes begin."""
    environment, lengths = task.make(), list[tuple[int, int]]()
    for task_id in task.training_ids()[:LOOKED_AT]:
        environment.reset(task_id, task.evaluation_seats[0])
        for prompt in environment.prompts():
            *system, user = (len(message["content"]) for message in prompt.messages)
            lengths.append((sum(system), sum(system) + user))
    shared, whole = min((one for one, _ in lengths), default=0), max((one for _, one in lengths), default=0)
    return round(shared / LETTERS), max(1, round(whole / LETTERS))


def misfit(needed: Sequence[Need], devices: Sequence[Device]) -> str:
    """Why the stages do not fit into this host, or its GPU if it has one: the worst in a sentence; else empty."""
    if not needed:
        return ""
    demands = [(need.host, host_memory(), need, "this host") for need in needed]
    demands += [(need.device, device.memory, need, "its GPU") for need in needed for device in devices[:1]]
    wants, has, need, place = max(demands, key=lambda one: one[0] / one[1])
    if wants <= has:
        return ""
    stage = need.address.partition("@")[0]
    keys = f"{stage}.tokens_per_pass" + (f" and {stage}.rollout.tokens_per_pass" if stage == "ppo" else "")
    return (
        f"does not fit: {need.address} needs about {wants / GIBIBYTE:.1f} GiB, {place} has {has / GIBIBYTE:.1f} GiB; "
        f"lower {keys}, set gradient_checkpointing, or choose a smaller model"
    )
