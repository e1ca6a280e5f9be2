"""`castaway doctor`: whether this host can build what params.yaml describes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as data.")] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Say whether this host can build, what is missing, and which profiles it can run; exit status 1 if it cannot.

    Example: `castaway doctor --json`.
    """
    import json

    from castaway.tools.doctor.report import examine

    report = examine(root)
    typer.echo(json.dumps(report.data(), indent=2) if as_json else report.text())
    if not report.healthy:
        raise typer.Exit(1)
