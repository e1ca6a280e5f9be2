"""Curves and bars of the report, as SVG that fits any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from castaway.tools.images.svg import FAINT, box, document, line, number, text

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 26
BESIDE, APART = 68, 15
"""Width of the names of levels at the right, and the least distance between two of them."""
COLOURS = ("#3b82c4", "#7d8590", "#d9822b", "#8e5bb5", "#2e9e5b")
MARK = "#d9822b"
TICKS = 4


def curves(title: str, series: Mapping[str, Points], levels: Mapping[str, float], marks: Sequence[float]) -> str:
    """One chart of curves over steps.

    Args:
        title: what it shows, for a screen reader.
        series: the points (step, value) of each curve, by its name.
        levels: horizontal dashed lines: the value of each, by its name, which stands at the right.
        marks: steps that get a small triangle below, such as those with an SFT pass.
    """
    points = [point for one in series.values() for point in one]
    steps, values = [x for x, _ in points], [*(y for _, y in points), *levels.values()]
    first, last = min(steps), max(*steps, min(steps) + 1)
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1
    right = WIDTH - (BESIDE if levels else RIGHT)

    def across(step: float) -> float:
        return LEFT + (right - LEFT) * (step - first) / (last - first)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    parts = []
    for tick in range(TICKS + 1):
        value = low + (high - low) * tick / TICKS
        parts += [line(LEFT, up(value), right, up(value), stroke=FAINT, width=0.4)]
        parts += [text(LEFT - 6, up(value) + 4, f"{value:.3g}", size=12, anchor="end")]
    for step in sorted({first, last}):
        parts.append(text(across(step), HEIGHT - 8, f"{round(step)}", size=12, anchor="middle"))
    parts += [text(across(step), HEIGHT - BOTTOM + 4, "\N{BLACK UP-POINTING TRIANGLE}", size=9, fill=MARK,
                   anchor="middle") for step in marks]  # fmt: skip
    for place, (name, one) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        way = " ".join(f"{number(across(x))},{number(up(y))}" for x, y in one)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(series) > 1:
            parts.append(text(right, TOP + 14 + 16 * place, name, size=12, fill=colour, anchor="end"))
    for (name, value), middle in zip(levels.items(), apart([up(value) for value in levels.values()]), strict=True):
        colour = COLOURS[(list(levels).index(name) + 1) % len(COLOURS)]
        parts.append(line(LEFT, up(value), right, up(value), stroke=colour, more='stroke-dasharray="6 4"'))
        parts.append(text(right + 6, middle + 4, name, size=13, fill=colour))
    return document(WIDTH, HEIGHT, title, parts)


def apart(places: Sequence[float]) -> list[float]:
    """Heights near these, in their order, of which no two are closer than `APART`, so that names do not overlap."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    found = list(places)
    for before, index in pairwise(order):
        found[index] = max(found[index], found[before] + APART)
    # What was pushed out at the bottom pushes back.
    limit = float(HEIGHT - BOTTOM)
    for index in reversed(order):
        found[index] = limit = min(found[index], limit)
        limit -= APART
    return found


def bars(title: str, shares: Mapping[str, tuple[float, float, float]]) -> str:
    """One horizontal bar for each share, with its interval.

    Args:
        title: what it shows, for a screen reader.
        shares: by name: the share from 0 to 1, and the ends of its interval.
    """
    row, left, wide = 24, 150, 460
    parts = []
    for place, (name, (share, low, high)) in enumerate(shares.items()):
        top = 4 + row * place

        def across(value: float) -> float:
            return left + (wide - left - 70) * value

        parts.append(text(left - 8, top + 14, name, size=13, anchor="end"))
        parts.append(box(left, top + 2, across(share) - left, row - 8, fill=COLOURS[0]))
        parts.append(line(across(low), top + 10, across(high), top + 10, stroke=MARK, width=3))
        parts.append(text(wide - 4, top + 14, f"{100 * share:.1f} %", size=13, anchor="end"))
    return document(wide, 8 + row * len(shares), title, parts)
