"""What a group of commands does without one."""

from __future__ import annotations

import typer


def show_help(context: typer.Context) -> None:
    """Show the help of a group whose command was left out."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
