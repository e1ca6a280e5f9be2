"""A page about one run: its results, how it learned, what was corrected, and episodes."""
