"""The ancestry of an artifact: which runs, commits and parameters made it."""
