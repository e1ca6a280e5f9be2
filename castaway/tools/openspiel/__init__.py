"""OpenSpiel for people."""
