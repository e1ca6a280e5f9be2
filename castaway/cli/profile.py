"""`castaway profile` and `castaway configure`: complete files of parameters, shown, estimated, put in place, made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError

Root = Annotated[Path, typer.Option(help="The repository.")]


def profile(
    name: Annotated[str, typer.Argument(help="A profile, or a complete file of parameters; default: list them.")] = "",
    write: Annotated[bool, typer.Option("--write", help="Replace params.yaml by it.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if params.yaml has changes that are not in git.")
    ] = False,
    root: Root = Path(),
) -> None:
    """List the profiles; or show what one changes in params.yaml, and the memory and time that its stages need.

    Example: `castaway profile smollm2`.
    """
    from castaway.tools.profiles.files import listing, profile_path, put_in_place, report

    if write and not name:
        raise CastawayError("name the profile to write; `castaway profile` lists them")
    if not name:
        typer.echo(listing(root))
    elif write:
        typer.echo(put_in_place(profile_path(name, root), root, force))
    else:
        typer.echo(report(profile_path(name, root), root))


def configure(
    root: Root = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a profile of that name.")] = False,
) -> None:
    """Ask for accelerator, model, tasks, teacher and budget, and write a profile; Return takes the default.

    Example: `castaway configure --force`.
    """
    from castaway.tools.profiles.configure import ask

    typer.echo(ask(root, force, read=typer.get_text_stream("stdin").readline, say=typer.echo))
