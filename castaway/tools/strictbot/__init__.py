"""STRICTBOT for people."""
