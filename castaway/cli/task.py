"""`castaway task`: create a package for a new task, check a task, and explain a task id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.cli.help import show_help
from castaway.errors import CastawayError

app = typer.Typer(
    help="Create a task of your own, check it, explain a task id.", invoke_without_command=True, callback=show_help
)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The task's name: lower-case letters, digits and underscores.")],
    to: Annotated[Path | None, typer.Option(help="The folder to write; default: castaway-NAME.")] = None,
) -> None:
    """Write a small package with a working game, its tests and a README; nothing is installed.

    Example: `castaway task new lights --to plugins/lights`.
    """
    from castaway.tools.new_task import write_package

    typer.echo(write_package(name, to or Path(f"castaway-{name.replace('_', '-')}")))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="The task's name, which is that of its entry point.")],
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Print what a task still lacks, one line each; the exit status is 2 if there is anything. Notes are no faults.

    Example: `castaway task check lights`.
    """
    from castaway.tools.check_task import findings

    missing = list(findings(name, root, on_note=lambda note: typer.echo(f"note: {note}")))
    for line in missing:
        typer.echo(f"missing: {line}")
    if missing:
        raise CastawayError(f"the task {name} lacks {len(missing)} {'thing' if len(missing) == 1 else 'things'}")
    typer.echo(f"the task {name} keeps its contract, and is in params.yaml and dvc.yaml")


@app.command("id")
def explain(task_id: Annotated[int, typer.Argument(help="An id of the task openspiel.")]) -> None:
    """Explain a task id of the openspiel task: the game, its variant, the seat and the seeds.

    Example: `castaway task id 123456789`.
    """
    from castaway.envs.openspiel.ids import episode_of, explained

    try:
        typer.echo(explained(episode_of(task_id)))
    except ValueError as error:
        raise CastawayError(str(error)) from None
