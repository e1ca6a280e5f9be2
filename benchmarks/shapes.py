"""The model, prompts and sizes that both sides of the PPO comparison use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
from peft import LoraConfig
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

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
    epochs: int
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

    def scalar_model(self, seed: int) -> Any:
        """An untrained model with one output, as reward model or critic."""
        torch.manual_seed(seed)
        config = self.config
        config.num_labels = 1
        return LlamaForSequenceClassification(config)

    def lora(self) -> LoraConfig:
        return LoraConfig(r=16, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")

    def prompts(self, batches: int) -> list[list[int]]:
        """Random prompts for so many batches; always the same ones."""
        random = Random(0)
        return [[random.randrange(8, VOCABULARY) for _ in range(self.prompt)] for _ in range(self.turns * batches)]

    def fields(self) -> dict[str, int]:
        return asdict(self)
