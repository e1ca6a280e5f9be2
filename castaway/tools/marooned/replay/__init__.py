"""A saved episode of MAROONED as a page to watch."""
