"""Data that is made: scripted play, text for pretraining, saved episodes."""
