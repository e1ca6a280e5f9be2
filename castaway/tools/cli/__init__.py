"""The command `castaway`."""

from pathlib import Path
from typing import Annotated, Any

import typer

Root = Annotated[Path, typer.Option(help="The repository.")]


def group(about: str, **options: Any) -> typer.Typer:
    """A group of commands, which shows its help if no command is given."""

    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return typer.Typer(
        help=about, invoke_without_command=True, callback=show_help, rich_markup_mode="markdown", **options
    )
