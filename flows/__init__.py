"""Runs the stages of the pipeline and records each run in MLflow; see `python -m flows --help`."""
