"""How PPO learned: for each run the success of its training and validation episodes, beside that of held-out ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.metrics.cells import Figures, from_file
from castaway.tools.images.svg import box, document, line, number, text

WIDTH, HEIGHT, COLUMNS = 900, 600, 3
LEFT, RIGHT, TOP, GAP, ROW, PLOT = 72, 12, 62, 30, 480, 360
"""Margins, the space between panels, the height of a row of panels, and of the plot in a panel."""
CURVE, ALONE = "#3b82c4", "#c2417c"
HELD_OUT = {"base": "#8b949e", "sft": "#d9822b", "final": "#2e9e5b"}
"""The policies that have a horizontal line, in their colours."""
CAPTION = (
    "Training is not evaluation: the curriculum draws the episodes, failures come back, and the teacher corrects",
    "invalid replies. In validation the policy plays alone, always the same episodes. Bands: 95 % intervals.",
)
ROUND = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Distances between the labelled steps."""


@dataclass(frozen=True)
class Panel:
    """What is drawn of one run."""

    run: str
    curve: Sequence[tuple[int, float]]
    """Step and share of successes, of the steps in which an episode ended."""
    alone: Sequence[tuple[int, float]]
    """The same of validation, in which the teacher does not help; of the steps that have one."""
    held_out: Mapping[str, tuple[float, float, float]]
    """By policy: the share, and its 95 % interval."""
    episodes: int


def read_panels(root: Path, runs: Sequence[str]) -> list[Panel]:
    """What has been built of these runs.

    Raises:
        CastawayError: none has been built, or a file is not what a stage writes; the line names it.
    """
    folders = {run: root / "data" / run for run in runs}
    built = {run: folder for run, folder in folders.items() if (folder / "metrics" / "evaluate.json").is_file()}
    if not built:
        raise CastawayError(f"there is no data/RUN/metrics/evaluate.json in {root.resolve()}; `dvc repro` builds it")
    return [_panel(run, folder) for run, folder in built.items()]


def _panel(run: str, folder: Path) -> Panel:
    curve, alone = from_file(folder / "plots" / "ppo.json", _curves)
    held_out, episodes = from_file(folder / "metrics" / "evaluate.json", _held_out)
    return Panel(run, curve, alone, held_out, episodes)


def _curves(rows: Any) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Those of training and of validation."""
    training, validation = (
        [(row, row[name]) for row in rows if row.get(name) is not None]
        for name in ("success_rate", "validation_success_rate")
    )
    if not training:
        raise CastawayError("success_rate is missing in all steps")
    if not all("step" in row for row, _ in training):
        raise CastawayError("step is missing")
    return [(int(row["step"]), float(share)) for row, share in training], [
        (int(row["step"]), float(share)) for row, share in validation
    ]


def _held_out(evaluate: Figures) -> tuple[dict[str, tuple[float, float, float]], int]:
    names = ("success_rate", "success_rate_low", "success_rate_high")
    missing = [policy for policy in HELD_OUT if not {*names, "episodes"} <= set(evaluate.get(policy, {}))]
    if missing:
        raise CastawayError(f"the success rate of {missing[0]} is missing")
    found = {policy: [float(evaluate[policy][name]) for name in names] for policy in HELD_OUT}
    return {policy: (rate, low, high) for policy, (rate, low, high) in found.items()}, int(
        evaluate["final"]["episodes"]
    )


# The picture ---------------------------------------------------------------------------------------------------------


def learning_picture(panels: Sequence[Panel]) -> str:
    """The picture: three panels a row."""
    rows = -(-len(panels) // COLUMNS)
    columns = min(COLUMNS, len(panels))
    width = (WIDTH - LEFT - RIGHT - GAP * (columns - 1)) / columns
    parts: list[str] = []
    for place, panel in enumerate(panels):
        x, y = LEFT + (place % COLUMNS) * (width + GAP), TOP + (place // COLUMNS) * ROW
        parts += [*_frame(panel, x, y, width, labelled=place % COLUMNS == 0), *_lines(panel, x, y, width)]
    height = HEIGHT + ROW * (rows - 1)
    names = ", ".join(panel.run for panel in panels)
    return document(WIDTH, height, f"Success by PPO step: {names}", [*parts, *_legend(height)])


def _height(top: float, share: float) -> float:
    return top + PLOT * (1 - share)


def _frame(panel: Panel, x: float, y: float, width: float, *, labelled: bool) -> Iterator[str]:
    """Heading, grid and axes."""
    yield text(x, y - 32, panel.run, size=19, more='font-weight="600"')
    yield text(x, y - 11, f"{panel.episodes} held-out episodes", size=15)
    if labelled:
        yield text(x - 8, y - 11, "success", size=15, anchor="end")
    for share in (0, 25, 50, 75, 100):
        level = _height(y, share / 100)
        yield line(x, level, x + width, level, width=1, more='stroke-opacity="0.35"')
        if labelled:
            yield text(x - 8, level + 5, f"{share} %", size=15, anchor="end")
    last = panel.curve[-1][0]
    distance = next((one for one in ROUND if last / one <= 5), last)
    for step in range(distance, last + 1, distance):
        yield text(_across(panel, step, x, width), y + PLOT + 20, str(step), size=15, anchor="middle")
    yield text(x + width / 2, y + PLOT + 42, "PPO step", size=15, anchor="middle")


def _across(panel: Panel, step: int, x: float, width: float) -> float:
    return x + width * step / panel.curve[-1][0]


def _lines(panel: Panel, x: float, y: float, width: float) -> Iterator[str]:
    """Held-out shares with their bands, and the curves of training and validation above them."""
    for policy, (share, low, high) in panel.held_out.items():
        top, bottom = _height(y, high), _height(y, low)
        yield box(x, top, width, bottom - top, fill=HELD_OUT[policy], more='fill-opacity="0.22"')
        yield line(x, _height(y, share), x + width, _height(y, share), stroke=HELD_OUT[policy], width=2)
    # A step in which no episode ended leaves a gap.
    drawn = [(_across(panel, step, x, width), _height(y, share)) for step, share in panel.curve]
    joined = [
        (one, other)
        for (one, other), (a, b) in zip(pairwise(drawn), pairwise(panel.curve), strict=True)
        if b[0] - a[0] == 1
    ]
    path = "".join(f"M{number(a)} {number(b)}L{number(c)} {number(d)}" for (a, b), (c, d) in joined)
    yield f'<path d="{path}" fill="none" stroke="{CURVE}" stroke-width="2.5" stroke-linecap="round"/>'
    for a, b in drawn:
        yield f'<circle cx="{number(a)}" cy="{number(b)}" r="2.6" fill="{CURVE}"/>'
    for step, share in panel.alone:
        yield _ring(_across(panel, step, x, width), _height(y, share))


def _ring(x: float, y: float) -> str:
    """The mark of a validation."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="6" fill="none" stroke="{ALONE}" stroke-width="3"/>'


def _legend(height: int) -> Iterator[str]:
    """What each line is, in the colours of the panels; and what the picture does not show."""
    y = height - 78
    entries = [(f"{name}, held out", tone) for name, tone in HELD_OUT.items()]
    entries += [("PPO, training episodes, with help", CURVE), ("PPO, validation, without help", ALONE)]
    for place, (words, tone) in enumerate(entries):
        across, down = (place, 26) if place < len(HELD_OUT) else (1.7 * (place - len(HELD_OUT)), 0)
        x = LEFT + 180 * across
        middle = y - down - 5
        yield _ring(x + 13, middle) if tone == ALONE else line(x, middle, x + 26, middle, stroke=tone, width=4)
        yield text(x + 34, y - down, words, size=16)
    for place, words in enumerate(CAPTION):
        yield text(LEFT, y + 32 + 23 * place, words, size=15)
