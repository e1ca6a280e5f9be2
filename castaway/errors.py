"""The one exception that Castaway raises for a mistake that its user can mend."""


class CastawayError(Exception):
    """One sentence: what is wrong, where, and what to do about it."""
