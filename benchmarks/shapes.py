"""The model, prompts, pay and sizes that both sides of the comparison of steps use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
from peft import LoraConfig
from transformers import LlamaConfig, LlamaForCausalLM

from castaway.tools.memory import Sizes

PAD = 0
VOCABULARY = 1024


@dataclass(frozen=True)
class Shape:
    """Sizes of the model, and of a batch of one-turn episodes."""

    hidden: int
    layers: int
    turns: int
    prompt: int
    """In tokens, as is `reply`."""
    reply: int
    group: int
    """How often each prompt is answered in a batch."""
    threads: int

    @property
    def config(self) -> LlamaConfig:
        return LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.hidden,
            intermediate_size=3 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=None,
            bos_token_id=None,
        )

    def policy(self) -> Any:
        """The untrained policy model; always with the same weights."""
        torch.manual_seed(0)
        return LlamaForCausalLM(self.config)

    def lora(self) -> LoraConfig:
        return LoraConfig(r=16, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")

    def prompts(self, batches: int) -> list[str]:
        """Random prompts for so many batches, always the same ones: digits, each of which is a token."""
        random = Random(0)
        count = self.turns // self.group * batches
        return ["".join(random.choices("0123456789", k=self.prompt)) for _ in range(count)]

    def fields(self) -> dict[str, int]:
        return asdict(self)


def random_model(sizes: Sizes) -> Any:
    """A Llama of these sizes with random weights, in bfloat16."""
    head = 128 if sizes.hidden > 1024 else 64
    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.queries // head,
        num_key_value_heads=sizes.keys // head,
        max_position_embeddings=2**14,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        tie_word_embeddings=sizes.tied,
        dtype="bfloat16",
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def gain(reply: str) -> float:
    """What a reply is paid, given as the numbers of its tokens: it differs within a group."""
    return sum(map(int, reply.split())) % 7 / 7
