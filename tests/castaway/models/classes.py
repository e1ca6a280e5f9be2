"""Small random models of many classes of transformers, in which they differ that matters to reading and training."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

WINDOW = 40
SIZES: dict[str, Any] = {
    **{"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 80, "max_position_embeddings": 512},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2}
CLASSES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "granite": {},
    "cohere": {},
    "gpt_neox": {},
    # Windows: in all layers, in every other one, with sinks, and local attention of an older kind.
    "mistral": {"sliding_window": WINDOW},
    "qwen2": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "gemma2": {"sliding_window": WINDOW},
    "gemma3_text": {"sliding_window": WINDOW},
    "phi3": {"sliding_window": WINDOW},
    "gpt_oss": {**EXPERTS, "sliding_window": WINDOW},
    "gpt_neo": {
        **{"num_layers": 2, "num_heads": 4, "window_size": WINDOW},
        "attention_types": [[["global", "local"], 1]],
    },
    # Experts.
    "mixtral": {**EXPERTS, "sliding_window": None},
    "qwen3_moe": EXPERTS,
    # Learned positions, and ALiBi.
    "gpt2": GPT2,
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 64},
    "bloom": {"n_layer": 2, "n_head": 4},
    "mpt": {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512},
    # Convolution and linear attention between layers of attention.
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "qwen3_next": {**EXPERTS, **LINEAR, "shared_expert_intermediate_size": 32},
}
"""By the name of the configuration, what is not as in `SIZES`."""
FURTHER: dict[str, dict[str, Any]] = {
    **{
        name: {} for name in ("olmo2", "smollm3", "glm4", "nemotron", "phi", "stablelm", "seed_oss", "apertus", "mamba")
    },
    **{name: {"sliding_window": WINDOW} for name in ("cohere2", "starcoder2", "exaone4", "ministral")},
    "olmo3": {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    **{name: EXPERTS for name in ("olmoe", "granitemoe")},
    "llama4_text": {**EXPERTS, "attention_chunk_size": WINDOW},
    "gptj": {**GPT2, "rotary_dim": 8},
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 1},
    "recurrent_gemma": {},
}
"""Further ones, which `python -m tests.matrix` goes through as well."""


def model_of(name: str, **more: Any) -> Any:
    """A model with weights large enough to make a difference."""
    torch.manual_seed(0)
    settings = {**SIZES, **(CLASSES | FURTHER).get(name, {}), **more}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **settings)).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.15)
    return model
