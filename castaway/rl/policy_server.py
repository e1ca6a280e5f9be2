"""Starts the vLLM server that draws a policy's replies: in PPO and in evaluation, where their `sampler` is `vllm`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from castaway.config.bases import Dtype
from castaway.datasets.scripted import read_demonstrations
from castaway.models.policy import load_model
from castaway.models.tokens import ChatTokenizer
from castaway.serving.server import running
from castaway.serving.vllm import Serving

MODEL = "base"
"""The name under which the server has the model; adapters have names of their own."""


@contextmanager
def serving_policy(
    base: Path,
    adapters: Sequence[Path],
    dtype: Dtype,
    folder: Path,
    demonstrations: Path,
    *,
    max_new_tokens: int,
    rank: int,
    gibibytes: int,
    environment: Path,
) -> Iterator[str]:
    """Context with a server that has a model, and that can be handed adapters for it one after another.

    Args:
        base: folder of the base model.
        adapters: folders of adapters, which are merged into it in their order.
        dtype: of the merged weights.
        folder: takes the merged model and the server's log.
        demonstrations: the file of demonstrations; the longest of their prompts decides the context of the server.
        max_new_tokens: of a reply.
        rank: of the adapters that the server will be handed.
        gibibytes: memory of the KV cache, in GiB.
        environment: the virtual environment with vLLM.

    Yields:
        The server's URL, which ends in /v1.

    Raises:
        CastawayError: vLLM is not installed, or the server did not start.
    """
    tokenizer = ChatTokenizer.load(base)
    model: Any = load_model(base, adapters, dtype)
    most: int = model.config.max_position_embeddings
    model.save_pretrained(folder / MODEL)
    tokenizer.save(folder / MODEL)
    del model  # the server has its own
    longest = max(len(tokenizer.prompt(row.messages)) for row in read_demonstrations(demonstrations))
    serving = Serving(
        str(folder / MODEL),
        model=MODEL,
        port=0,
        # The policy's own prompts may be longer than those of the demonstrations; the model's own maximum would take
        # 16 GiB for the keys and values of one prompt of Llama 3.1.
        context=min(2 * longest + max_new_tokens, most),
        passing_rank=rank,
        cache_gibibytes=gibibytes,
        environment=environment,
        log=folder / "log",
    )
    with running(serving) as server:
        yield server.url
