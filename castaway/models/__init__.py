"""Models: LoRA adapters, the reward model, trainers, and chat messages as tokens."""
