"""Measurements: `make bench` writes results.md, and `python -m benchmarks.seeds 2 3` repeats the pipeline."""
