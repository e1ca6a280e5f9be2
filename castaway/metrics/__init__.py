"""Figures: intervals, rankings, charts and tables."""
