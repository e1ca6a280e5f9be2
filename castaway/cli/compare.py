"""`castaway compare`: a table of experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    revisions: Annotated[
        list[str] | None, typer.Argument(help="Commits and experiments; default: `now` and all of `dvc exp run`.")
    ] = None,
    run: Annotated[str, typer.Option(help="Only this run.")] = "",
    json: Annotated[bool, typer.Option("--json", help="For programs: one object per row.")] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Compare experiments: success of SFT, PPO and the final policy, a row for each set of parameters.

    Example: `castaway compare HEAD~1 now --run strictbot`. Builds that differ in the seed alone are one row, with the
    mean over seeds and its 95 % interval; a single build has its own interval.
    """
    from castaway.tools.experiments import as_json, as_table, compared

    rows = compared(root, revisions or [], run)
    typer.echo(as_json(rows) if json else as_table(rows))
