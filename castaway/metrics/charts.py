"""Draws shares as grouped bars with confidence intervals, in an SVG file.

No plotting library is used, so that equal figures give equal bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

COLOURS = ("#bbbbbb", "#66ccee", "#4477aa", "#228833", "#ccbb44", "#ee6677", "#aa3377")
"""Paul Tol's bright scheme, which is safe for colour-blind readers."""
BAR, SPACE, HEIGHT, LEFT, TOP = 9, 14, 220, 44, 40
"""Width of a bar, space between groups, height of the plot, left and top margins; in pixels."""


def grouped_bars(groups: Mapping[str, Mapping[str, Mapping[str, Any]]], name: str) -> str:
    """An SVG with one group of bars for each of `groups`, and in it one bar for each player that has the figure.

    Args:
        groups: figures by group and player; `NAME`, `NAME_low` and `NAME_high` are from 0 to 1.
        name: the figure to draw.
    """
    players = list(dict.fromkeys(p for figures in groups.values() for p, found in figures.items() if name in found))
    width = len(players) * BAR + SPACE
    parts = [_scale(LEFT + width * len(groups)), _legend(players)]
    for number, (group, figures) in enumerate(groups.items()):
        start = LEFT + number * width
        for place, player in enumerate(players):
            if name in figures.get(player, {}):
                parts.append(_bar(start + place * BAR, figures[player], name, COLOURS[place % len(COLOURS)]))
        parts.append(f'<text transform="translate({start + 6},{TOP + HEIGHT + 12}) rotate(25)">{escape(group)}</text>')
    total = max(LEFT + width * len(groups), 620) + 60, TOP + HEIGHT + 70
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="11">', '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _y(share: float) -> float:
    """The vertical position of a share from 0 to 1, in pixels from the top."""
    return round(TOP + HEIGHT * (1 - share), 1)


def _scale(right: int) -> str:
    """Horizontal lines at every 25 %, with their labels."""
    lines = [
        f'<line x1="{LEFT}" y1="{_y(share / 100)}" x2="{right}" y2="{_y(share / 100)}" stroke="#dddddd"/>'
        f'<text x="4" y="{_y(share / 100) + 4}">{share} %</text>'
        for share in range(0, 101, 25)
    ]
    return "\n".join(lines)


def _legend(players: list[str]) -> str:
    """The players' names and colours."""
    return "\n".join(
        f'<rect x="{LEFT + 90 * place}" y="8" width="10" height="10" fill="{COLOURS[place % len(COLOURS)]}"/>'
        f'<text x="{LEFT + 90 * place + 14}" y="17">{escape(player)}</text>'
        for place, player in enumerate(players)
    )


def _bar(left: float, figures: Mapping[str, Any], name: str, colour: str) -> str:
    """A bar from 0 to the share, with a vertical line for its interval."""
    top, middle = _y(figures[name]), left + (BAR - 1) / 2
    low, high = _y(figures[f"{name}_low"]), _y(figures[f"{name}_high"])
    return (
        f'<rect x="{left}" y="{top}" width="{BAR - 1}" height="{round(TOP + HEIGHT - top, 1)}" fill="{colour}"/>'
        f'<line x1="{middle}" y1="{high}" x2="{middle}" y2="{low}" stroke="black"/>'
    )
