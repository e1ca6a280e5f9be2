"""`castaway lineage`: which runs, commits and parameters made an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError


def lineage(
    target: Annotated[
        str, typer.Argument(help="RUN, RUN/STAGE, STAGE@RUN, a path in data, or a hash or id; default: every run.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="For programs: a list of stages for each artifact.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file instead.")] = None,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Show the ancestry of an artifact back to the base model: MLflow runs, commits, parameters, hashes, figures.

    Example: `castaway lineage strictbot/ppo`. Parameters are shown where they differ from the last commit's. Only
    params.yaml, dvc.lock and the run records are read, so neither MLflow nor DVC's cache is needed.
    """
    from castaway.tools.lineage import show
    from castaway.tools.lineage.ancestry import ancestry, wanted
    from castaway.tools.lineage.locked import locked_stages

    stages = locked_stages(root)
    found = [ancestry(root, stages, address) for address in wanted(stages, target)]
    if json:
        typer.echo(show.as_json(found))
        return
    trees = [show.grow(ancestors) for ancestors in found]
    if html is None:
        typer.echo("\n\n".join(show.text(tree) for tree in trees))
        return
    try:
        html.write_text(show.page(trees, target or "every run"), encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{html} cannot be written: {error.strerror}") from None
    typer.echo(str(html))
