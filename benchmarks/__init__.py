"""Benchmarks: `make bench` measures speed and writes results.md."""
