"""The key of a teacher's server: from the environment or a file, never from params.yaml, which is tracked."""

import os
from pathlib import Path

from castaway.config.errors import CastawayError

KEY_VARIABLE = "CASTAWAY_TEACHER_KEY"
KEY_FILE_VARIABLE = "CASTAWAY_TEACHER_KEY_FILE"


def secret() -> str:
    """The key of the server, from the environment or from the file that it names; empty if there is none."""
    path = os.environ.get(KEY_FILE_VARIABLE)
    if not path:
        return os.environ.get(KEY_VARIABLE, "")
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CastawayError(f"{KEY_FILE_VARIABLE} names {path}, which cannot be read; unset it or mend it") from None
