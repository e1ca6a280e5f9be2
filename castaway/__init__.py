"""Castaway: train language models to act, with a teacher that judges every move."""
