"""The stages and what each reads of the others, as dvc.yaml says it: a picture like a staircase.

Every stage is a step further to the right and down. What it makes leaves to the right; where that line meets the one
that falls into a later stage, a dot says that the stage reads it. So every arrow can be followed, and none is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError
from castaway.tools.images.svg import LINE, box, document, line, number, text

WIDTH, HEIGHT = 900, 600
BOX_WIDTH, BOX_HEIGHT, STEP_X, STEP_Y, LEFT, TOP = 146, 44, 104, 74, 12, 16
ARROW, DOT = 9, 4.5
COLOURS = {"base": "#8250a8", "merge": "#2a8a4f", "evaluate": "#2a8a4f"}
OTHERS = "#2f6fb2"
"""Behind white words: what begins, what comes out, and what is between."""
READ = re.compile(r"data/\$\{[\w.]+\}/(\w+)")


def dag_picture(document_: Mapping[str, Any]) -> str:
    """The picture of a dvc.yaml that has been read.

    Raises:
        CastawayError: it holds no stages, or they read each other in a circle.
    """
    reads = dependencies(document_)
    stages = in_order(reads)
    places = {stage: (LEFT + STEP_X * number_, TOP + STEP_Y * number_) for number_, stage in enumerate(stages)}
    parts = [
        *(part for stage in stages for part in _outgoing(stage, stages, reads, places)),
        *(part for stage in stages for part in _incoming(stage, reads, places)),
        *(part for stage in stages for part in _box(stage, places[stage])),
        *_words(document_, places[stages[-1]][1]),
    ]
    return document(WIDTH, HEIGHT, f"The stages and what they read: {', '.join(stages)}", parts)


def dag_of(path: Path) -> str:
    """The picture of the file.

    Raises:
        CastawayError: it is missing, or not to be drawn; the line names it.
    """
    content = read_yaml(path)
    try:
        return dag_picture(content)
    except CastawayError as error:
        raise CastawayError(f"{path.name} cannot be drawn: {error}") from None


def dependencies(document_: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of each stage the stages whose outs it reads, in the order of the file."""
    found = document_.get("stages") if isinstance(document_, Mapping) else None
    if not isinstance(found, Mapping) or not found:
        raise CastawayError("it holds no stages")
    reads = {}
    for name, definition in found.items():
        listed = definition.get("do", definition).get("deps", [])
        names = [match[1] for match in map(READ.fullmatch, map(str, listed)) if match]
        reads[str(name)] = [other for other in dict.fromkeys(names) if other in found and other != name]
    return reads


def in_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """The stages so that each comes after all that it reads; as in the file where that leaves a choice."""
    ordered: list[str] = []
    while len(ordered) < len(reads):
        ready = [stage for stage in reads if stage not in ordered and set(reads[stage]) <= set(ordered)]
        if not ready:
            raise CastawayError("its stages read each other in a circle")
        ordered.append(ready[0])
    return ordered


def _outgoing(
    stage: str, stages: Sequence[str], reads: Mapping[str, Sequence[str]], places: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """What the stage makes: a line to the right, as far as the last stage that reads it."""
    readers = [other for other in stages if stage in reads[other]]
    if readers:
        x, y = places[stage]
        middle = y + BOX_HEIGHT / 2
        yield line(x + BOX_WIDTH, middle, _centre(places[readers[-1]]), middle, stroke=LINE)


def _incoming(stage: str, reads: Mapping[str, Sequence[str]], places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """What the stage reads: a line that falls into its box, with a dot for each stage."""
    if not reads[stage]:
        return
    centre, top = _centre(places[stage]), places[stage][1]
    heights = [places[other][1] + BOX_HEIGHT / 2 for other in reads[stage]]
    yield line(centre, min(heights), centre, top - ARROW, stroke=LINE)
    corners = f"{number(centre - 5)},{number(top - ARROW - 1)} {number(centre + 5)},{number(top - ARROW - 1)}"
    yield f'<polygon points="{corners} {number(centre)},{number(top)}" fill="{LINE}"/>'
    for height in heights:
        yield f'<circle cx="{number(centre)}" cy="{number(height)}" r="{DOT}" fill="{LINE}"/>'


def _centre(place: tuple[int, int]) -> float:
    return place[0] + BOX_WIDTH / 2


def _box(stage: str, place: tuple[int, int]) -> Iterator[str]:
    x, y = place
    yield box(x, y, BOX_WIDTH, BOX_HEIGHT, fill=COLOURS.get(stage, OTHERS), more='rx="8"')
    bold = 'font-weight="600"'
    yield text(x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2 + 6, stage, size=16, fill="#ffffff", anchor="middle", more=bold)


def _words(document_: Mapping[str, Any], bottom: float) -> Iterator[str]:
    """How to read it, in the free corner below the staircase; and what it is built for."""
    runs, bases = (_known(document_, name) for name in ("tasks", "bases"))
    lines = [
        "A dot: the stage below the line",
        "reads what the stage on its left made.",
        "",
        f"base: once for each of {bases}",
        "all others: once for each run",
        f"({runs})",
    ]
    for place, words in enumerate(lines):
        if words:
            yield text(LEFT, bottom - 26 * (len(lines) - 1 - place) + 36, words, size=17)


def _known(document_: Mapping[str, Any], name: str) -> str:
    """The `tasks` or the `bases` among the variables of dvc.yaml."""
    parts = [part[name] for part in document_.get("vars") or [] if isinstance(part, Mapping) and name in part]
    return ", ".join(str(one) for part in parts for one in part) or "none"
