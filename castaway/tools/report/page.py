"""The report of a run as one HTML file, without scripts and without requests to any host."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from castaway.tools.replay.page import environment
from castaway.tools.report.content import Report, report_of


def report_page(root: Path, run: str) -> str:
    """The page of a run; text of models and teachers is escaped.

    Raises:
        CastawayError: the run was not evaluated, or a file is not what a stage writes.
    """
    return render(report_of(root, run))


def render(report: Report) -> str:
    """The page."""
    pages = environment(Path(__file__).parent)
    # Pictures are made here, with their texts escaped; everything else is text.
    pages.filters["picture"] = Markup
    return pages.get_template("report.html.jinja").render(report=report)
