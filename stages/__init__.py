"""One file a stage, each read from top to bottom: load, do, save."""
