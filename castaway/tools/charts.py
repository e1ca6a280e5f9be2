"""Charts as SVG, drawn by matplotlib: equal figures give equal bytes.

The background stays open and the tones are about as far from white as from black, since the page that shows a chart may
be light or dark. Text stays text, so that it can be selected and found.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from castaway.tasks.intervals import Interval

Series = Mapping[str, Sequence[tuple[float, float]]]  # the points (step, value) of each curve, by its name
Levels = Mapping[str, Interval]  # figures that are drawn as dashed horizontal lines, by name
TEXT = "#7d8590"
COLOURS = ("#3b82c4", "#8b949e", "#d9822b", "#8e5bb5", "#2e9e5b", "#ccbb44", "#aa3377", "#66ccee", "#ee6677", "#8c6d46")
INTERVAL = "#d9822b"
STYLE: Any = {
    "svg.hashsalt": "castaway",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "savefig.transparent": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), TEXT),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "grid.alpha": 0.35,
}
PIXELS = 96  # of an inch, as browsers count


def draw(title: str, width: float, height: float, plot: Callable[[Figure], None]) -> str:
    """The SVG element of a picture of that size in pixels; the title is what a screen reader says of it."""
    text = StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(width / PIXELS, height / PIXELS), layout="constrained")
        plot(figure)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    _, _, element = text.getvalue().partition("<svg ")
    return f'<svg role="img" aria-label="{escape(title)}" {element}'


def curves(title: str, series: Series, levels: Levels, marks: Sequence[float]) -> str:
    """Curves over steps, with horizontal lines for comparison; at the `marks`, steps, there is a triangle below."""

    def plot(figure: Figure) -> None:
        axes = figure.subplots()
        _curves(axes, series, levels)
        axes.plot(marks, [0] * len(marks), "^", color=INTERVAL, clip_on=False, transform=axes.get_xaxis_transform())
        if len(series) + len(levels) > 1:
            figure.legend(loc="outside lower center", ncols=3, fontsize="small")

    return draw(title, 460, 280, plot)


def panels(title: str, shares: Mapping[str, tuple[Series, Levels]]) -> str:
    """Curves of shares from 0 to 1 in panels next to each other, three in a row, by the heading of the panel."""
    columns = min(3, len(shares))
    rows = -(-len(shares) // columns)

    def plot(figure: Figure) -> None:
        grid = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
        for axes, (heading, (series, levels)) in zip(grid, shares.items(), strict=False):
            _curves(axes, series, levels)
            axes.set_title(heading, fontsize="medium")
            axes.set(ylim=(0, 1), xlabel="PPO step")
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        for axes in grid[len(shares) :]:
            axes.set_axis_off()
        lines = {name: line for one in figure.axes for line, name in zip(*one.get_legend_handles_labels(), strict=True)}
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=3)

    return draw(title, 900, 80 + 340 * rows, plot)


def _curves(axes: Axes, series: Series, levels: Levels) -> None:
    for colour, (name, points) in zip(COLOURS, series.items(), strict=False):
        axes.plot(*zip(*points, strict=True), color=colour, label=name)
    for colour, (name, one) in zip(COLOURS[2:], levels.items(), strict=False):
        axes.axhline(one.value, color=colour, linestyle="dashed", label=name)
        axes.axhspan(one.low, one.high, color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=min([0.0, *(y for points in series.values() for _, y in points)]))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def counted_bars(title: str, groups: Mapping[str, Mapping[str, int]]) -> str:
    """The same bars for each group, with their numbers, in panels next to each other."""

    def plot(figure: Figure) -> None:
        for axes, (group, counts) in zip(
            figure.subplots(1, len(groups), squeeze=False).flat, groups.items(), strict=True
        ):
            axes.bar_label(axes.bar(list(counts), list(counts.values()), color=COLOURS[0]))
            axes.set_title(group, fontsize="medium")
            axes.tick_params(axis="x", labelrotation=20)

    return draw(title, 320 * len(groups), 260, plot)


def grouped_bars(groups: Mapping[str, Mapping[str, Mapping[str, Any]]], name: str) -> str:
    """In each group a bar for each player that has the figure `name`, from 0 to 1, with its interval."""
    players = list(dict.fromkeys(p for figures in groups.values() for p, one in figures.items() if name in one))
    width = 0.85 / max(1, len(players))

    def plot(figure: Figure) -> None:
        axes = figure.subplots()
        for number, player in enumerate(players):
            rated = [(g, one[player]) for g, one in enumerate(groups.values()) if name in one.get(player, {})]
            places = [group + (number - (len(players) - 1) / 2) * width for group, _ in rated]
            values, lows, highs = ([one[f"{name}{end}"] for _, one in rated] for end in ("", "_low", "_high"))
            axes.bar(places, values, width, color=COLOURS[number % len(COLOURS)], label=player)
            axes.vlines(places, lows, highs, color="black", linewidth=1)
        axes.set(ylim=(0, 1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xticks(range(len(groups)), list(groups), rotation=25, ha="right")
        if players:
            figure.legend(loc="outside upper center", ncols=len(players), fontsize="small")

    return draw(name.replace("_", " "), max(620, 60 + len(groups) * (14 + 9 * len(players))), 340, plot)
