"""`castaway diff`: what differs between two runs or revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def diff(
    before: Annotated[str, typer.Argument(help="RUN, REVISION or REVISION:RUN; `now` is the working tree.")] = "HEAD",
    after: Annotated[str, typer.Argument(help="The same.")] = "now",
    json: Annotated[bool, typer.Option("--json", help="For programs: one object per run.")] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Show which parameters, code and outputs differ, and what it did to the success rates.

    Example: `castaway diff HEAD~1:strictbot strictbot`. Exit status: 0 if nothing differs, 1 if something does.
    """
    from castaway.tools.differences import compare

    found = compare(root, before, after)
    if json:
        typer.echo(f"[{','.join(one.as_json() for one in found)}]")
    else:
        typer.echo("\n\n".join(one.report() for one in found))
    raise typer.Exit(int(any(found)))
