"""The stages of the pipeline: one file each, with a function `run` that loads, computes and saves."""
