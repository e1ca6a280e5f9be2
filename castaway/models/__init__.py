"""Models: the tiny stand-in, adapters and their merging, chat prompts as tokens."""
