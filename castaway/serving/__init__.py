"""Runs vLLM as a separate process: its command line, and starting, watching and stopping it."""
