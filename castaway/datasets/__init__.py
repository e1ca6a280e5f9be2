"""Generated data: scripted play, pretraining text, saved episodes."""
