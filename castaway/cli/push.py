"""`castaway push`: the merged model of a run, to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def push(
    run: Annotated[str, typer.Argument(help="A run that is merged and evaluated.")],
    repository: Annotated[str, typer.Argument(help="OWNER/NAME on the Hub; created if it is not there.")],
    yes: Annotated[bool, typer.Option("--yes", help="Upload; without it, it is only shown what would be.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Let everybody see a repository that is created.")] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Upload the merged model of a run to the Hugging Face Hub, with its results and its lineage in the model card.

    Example: `castaway push strictbot you/strictbot --yes`. HF_TOKEN has the token, HF_ENDPOINT the address of another
    Hub. Exit status 2 if it could not be uploaded.
    """
    from castaway.tools.publish import publish, upload_of

    upload = upload_of(root, run)
    if not yes:
        typer.echo(upload.card)
        for name, path in upload.files.items():
            typer.echo(f"{path.stat().st_size / 2**20:10.2f} MiB  {name}")
        typer.echo("nothing was uploaded; --yes does it")
        return
    typer.echo(publish(upload, repository, private=not public, message=f"Castaway: the run {run}"))
