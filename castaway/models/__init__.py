"""Models: the tiny base model, LoRA adapters, the reward model, and chat messages as tokens."""
