"""`castaway report`: a page about one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError


def report(
    run: Annotated[str, typer.Argument(help="A run that has been evaluated.")],
    to: Annotated[Path | None, typer.Option(help="File to write; default: scratch/RUN.html.")] = None,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Write a page about a run: results with intervals, learning curves, corrections, and saved episodes.

    Example: `castaway report strictbot`. The page is one file and asks no other host. MLflow has it too, among the
    artifacts of the run of `evaluate`.
    """
    from castaway.tools.report.page import report_page

    page, place = report_page(root, run), to or root / "scratch" / f"{run}.html"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{place} cannot be written: {error.strerror}") from None
    typer.echo(str(place))
