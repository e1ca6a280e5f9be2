"""The one exception that Castaway raises for a mistake that its user can mend."""


class CastawayError(Exception):
    """One sentence: what is wrong, where, and what to do about it."""


def first_line(error: Exception) -> str:
    """What an exception of a library says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
