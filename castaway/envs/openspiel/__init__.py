"""Twenty games of OpenSpiel as one text environment."""
