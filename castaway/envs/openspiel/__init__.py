"""Games of OpenSpiel as one text environment and one task."""
