"""Flows: when and where the stages run, and what is remembered of them. `python -m flows --help`."""
