"""What the pictures share: SVG written by hand, in tones that can be read on white and on dark pages.

Nothing is drawn by a library, so equal input gives equal bytes on every machine. The background stays open: the page
that shows the picture may be light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

TEXT, LINE, FAINT = "#7d8590", "#8b949e", "#8b949e"
"""Tones in the middle: about as far from white as from black."""
FONT = "-apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def document(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole picture; the title is what a screen reader says of it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="{escape(FONT)}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>\n"])


def text(
    x: float, y: float, words: str, *, size: int = 16, fill: str = TEXT, anchor: str = "start", more: str = ""
) -> str:
    """A line of text whose baseline is at y."""
    place = f'x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
    return f"<text {place}{f' {more}' if more else ''}>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = LINE, width: float = 1.5, more: str = "") -> str:
    """A straight line."""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"{f" {more}" if more else ""}/>'


def box(x: float, y: float, width: float, height: float, *, fill: str, more: str = "") -> str:
    """A filled rectangle."""
    size = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {size} fill="{fill}"{f" {more}" if more else ""}/>'


def number(value: float) -> str:
    """At most one digit behind the point: finer is not seen, and would round differently on other machines."""
    return f"{round(value, 1):g}"
