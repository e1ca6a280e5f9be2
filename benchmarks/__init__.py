"""Benchmarks: `make bench` writes results.md, and `python -m benchmarks.seeds 2 3` builds runs with other seeds."""
