"""Figures from the files of metrics, and as cells of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.metrics.markdown import percent

UNSEEN = "unseen"
"""The prefix of figures from situations that training never played; no seat has this name."""

Figures = Mapping[str, Any]
"""The metrics of one policy, or of one stage."""


def policy_cells(figures: Figures, others: Sequence[str]) -> list[str]:
    """Invalid replies, success in the main seat and in the others, mean return, and the number of episodes."""
    episodes = [str(figure(figures, f"{prefix}episodes")) for prefix in ("", *(f"{other}_" for other in others))]
    return [
        percent(figure(figures, "invalid_rate")),
        share(figures, "success_rate"),
        *(share(figures, f"{other}_success_rate") for other in others),
        f"{round(figure(figures, 'mean_return'), 1) + 0.0:.1f}",  # no minus before a zero
        " + ".join(episodes),
    ]


def further_seats(figures: Figures) -> list[str]:
    """The seats other than the main one; their figures carry the seat's name as a prefix."""
    names = [re.fullmatch(r"(.+)_success_rate", name) for name in figures]
    return sorted(name.group(1) for name in names if name and name.group(1) != UNSEEN)


def share(figures: Figures, name: str) -> str:
    """A share with its interval: `12.3 % (10.1 to 14.9)`."""
    value, low, high = (figure(figures, key) for key in (name, f"{name}_low", f"{name}_high"))
    return f"{percent(value)} ({100 * low:.1f} to {100 * high:.1f})"


def from_file(path: Path, build: Callable[[Figures], Any]) -> Any:
    """The result of `build` for the metrics in a file.

    Raises:
        CastawayError: the file is missing, is not JSON or lacks a figure; the message names the file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError(f"{path} does not exist; `dvc repro` builds it") from None
    except (OSError, ValueError) as error:
        raise CastawayError(f"{path} cannot be read as JSON: {' '.join(str(error).split())}") from None
    try:
        return build(content)
    except (CastawayError, TypeError, ValueError) as error:
        raise CastawayError(f"{path} is not what the stage writes: {error}") from None


def figure(figures: Figures, name: str) -> Any:
    """The figure of that name.

    Raises:
        CastawayError: it is missing.
    """
    if not isinstance(figures, Mapping) or name not in figures:
        raise CastawayError(f"{name} is missing")
    return figures[name]
