"""Writes Markdown: percentages with intervals, tables aligned in plain text too, and text between markers."""

import re
from collections.abc import Sequence

from castaway.config.errors import CastawayError
from castaway.metrics.built import Figures
from castaway.tasks.intervals import Interval

UNSEEN = "unseen"  # the prefix of figures from situations that training never played; no seat has this name


def percent(value: float) -> str:
    """A share from 0 to 1 as a percentage: `12.3 %`."""
    return f"{100 * value:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, figures: bool = True) -> str:
    """A Markdown table, aligned in plain text too: the first column left, the others right if they are `figures`."""
    from pandas import DataFrame  # it takes a second, and most commands make no table

    sides = ["left", *["right" if figures else "left"] * (len(header) - 1)]
    return str(DataFrame(rows, columns=list(header)).to_markdown(index=False, colalign=sides, disable_numparse=True))


def replace_between(text: str, name: str, content: str) -> str:
    """`text` with `content` between `<!-- name -->` and `<!-- /name -->`, each on a line of its own."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if (text.count(start), text.count(end)) != (1, 1) or text.index(start) > text.index(end):
        raise CastawayError(f"expected one line `{start.strip()}` and after it one line `{end}`")
    before, after = text.partition(start)[0], text.partition(end)[2]
    return f"{before}{start}{content}\n{end}{after}"


def policy_cells(figures: Figures, others: Sequence[str]) -> list[str]:
    """Invalid replies, success in the main seat and in the others, mean return, and the number of episodes."""
    return [
        percent(figures["invalid_rate"]),
        share(figures, "success_rate"),
        *(share(figures, f"{other}_success_rate") for other in others),
        f"{round(figures['mean_return'], 1) + 0.0:.1f}",  # no minus before a zero
        " + ".join(str(figures[f"{prefix}episodes"]) for prefix in ("", *(f"{other}_" for other in others))),
    ]


def further_seats(figures: Figures) -> list[str]:
    names = [re.fullmatch(r"(.+)_success_rate", name) for name in figures]
    return sorted(name.group(1) for name in names if name and name.group(1) != UNSEEN)


def interval(figures: Figures, name: str) -> Interval:
    return Interval(*(float(figures[f"{name}{end}"]) for end in ("", "_low", "_high")))


def share(figures: Figures, name: str) -> str:
    """A share with its interval: `12.3 % (10.1 to 14.9)`."""
    return with_interval(interval(figures, name))


def with_interval(one: Interval) -> str:
    return f"{percent(one.value)} ({100 * one.low:.1f} to {100 * one.high:.1f})"
