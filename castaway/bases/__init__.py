"""Base models: where they come from, and the pretraining of tiny ones."""
