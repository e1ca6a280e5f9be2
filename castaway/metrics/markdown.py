"""Writes Markdown: percentages, tables that are aligned in plain text too, and text between markers."""

from __future__ import annotations

from collections.abc import Sequence

from castaway.errors import CastawayError


def percent(value: float) -> str:
    """A share from 0 to 1 as a percentage: `12.3 %`."""
    return f"{100 * value:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, figures: bool = True) -> str:
    """A Markdown table, padded so that it is aligned in plain text too.

    The first column is aligned left; the others right if they are `figures`, else left.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        pad = str.rjust if figures else str.ljust
        padded = [pad(cell, width) for cell, width in zip(cells, widths, strict=True)]
        return f"| {' | '.join([cells[0].ljust(widths[0]), *padded[1:]])} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + (":" if figures else "-") for width in widths[1:])]
    return "\n".join([line(header), f"| {' | '.join(rule)} |", *(line(row) for row in rows)])


def replace_between(text: str, name: str, content: str) -> str:
    """`text` with `content` between `<!-- name -->` and `<!-- /name -->`, each on a line of its own.

    Raises:
        CastawayError: the text does not have each marker exactly once, in this order.
    """
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if (text.count(start), text.count(end)) != (1, 1) or text.index(start) > text.index(end):
        raise CastawayError(f"expected one line `{start.strip()}` and after it one line `{end}`")
    before, after = text.partition(start)[0], text.partition(end)[2]
    return f"{before}{start}{content}\n{end}{after}"
