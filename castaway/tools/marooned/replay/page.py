"""Writes a replay as one HTML file, which needs no server and no network.

Text that models wrote is never interpreted as markup. The episode is in the page as JSON with `<` escaped, the page
inserts text only with `textContent`, and its content security policy allows only its own script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from castaway.datasets.episodes import Row
from castaway.tools.marooned.replay.moments import replay_data


def replay_page(rows: Sequence[Row]) -> str:
    """The HTML page of a saved episode.

    Raises:
        CastawayError: the rows are not an episode of MAROONED.
    """
    data = replay_data(rows)
    script, style = _file("page.js"), _file("page.css")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_file("page.html.jinja"))
    head = data["head"]
    return template.render(
        title=f"MAROONED, {data['island']['name']}, episode {head['task_id']}",
        script=Markup(script),
        style=Markup(style),
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        episode=Markup(_json(data)),
    )


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


def _json(data: object) -> str:
    """JSON that an HTML parser cannot take for markup."""
    text = json.dumps(data, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    """The hash by which a content security policy allows exactly this script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
