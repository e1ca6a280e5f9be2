"""Tools for STRICTBOT."""
