"""Tools for OpenSpiel."""
