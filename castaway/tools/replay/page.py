"""A replay as one HTML file, without scripts and without requests to any host; text of models is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from castaway.datasets.episodes import Row
from castaway.tools.replay.moments import replay_of

TEMPLATES = Path(__file__).parent
"""The folder of the templates, of which `moments.html.jinja` serves other pages too."""


def environment(*folders: Path) -> Environment:
    """An environment of Jinja that escapes all text, for the templates in these folders and here."""
    return Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def episode_page(rows: Sequence[Row]) -> str:
    """The page of a saved episode of any task."""
    return environment().get_template("page.html.jinja").render(replay=replay_of(rows))
