"""`python -m castaway_textarena`: the games, the blocks of a run in params.yaml, and the tables of the README."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from castaway.config.errors import CastawayError
from castaway_textarena import catalogue, tables

app = typer.Typer(help="The games of TextArena as a task for Castaway.", no_args_is_help=True, add_completion=False)
Readme = Annotated[Path | None, typer.Option(help="A file with the marks of the table; default: print it.")]


@app.command()
def names() -> None:
    """Print the names of all games that are not refused.

    Example: `python -m castaway_textarena names`.
    """
    for name in catalogue.games():
        if catalogue.family(name) not in catalogue.REFUSED:
            typer.echo(name)


@app.command()
def blocks(
    game: Annotated[str, typer.Argument(help="TextArena's name of the game.")],
    into: Annotated[Path | None, typer.Option(help="A params.yaml to write them into; default: print them.")] = None,
) -> None:
    """Print the two blocks that a run of this game needs in params.yaml, or write them into it.

    Example: `python -m castaway_textarena blocks Nim-v0 --into params.yaml`.
    """
    catalogue.check(game)
    name = re.sub(r"[^a-z0-9]+", "_", f"ta_{game}".lower()).strip("_")
    text = (resources.files(__package__) / "blocks.yaml").read_text("utf-8")
    text = text.replace("NAME", name).replace("GAME", game)
    if into is None:
        typer.echo(text)
        return
    own_bases, own_tasks = text.removeprefix("bases:\n").split("tasks:\n")
    found = into.read_text("utf-8")
    if f"\n  {name}:\n" in found:
        raise CastawayError(f"{into} has a block {name} already; change it there")
    for section, own in (("bases", own_bases), ("tasks", own_tasks)):
        found, count = re.subn(rf"^({section}:.*\n)", rf"\1{own}", found, count=1, flags=re.M)
        if not count:
            raise CastawayError(f"{into} has no section {section}; add it")
    into.write_text(found, "utf-8")
    typer.echo(f"wrote the run {name}; next: castaway task check textarena")


@app.command()
def games(
    readme: Readme = None,
    texts: Annotated[int, typer.Option(help="Random texts that are said in each game.")] = 10_000,
    processes: Annotated[int, typer.Option(help="Games that are tried at one time.")] = 2,
) -> None:
    """Check one game of each kind, and print or write the table of what was found.

    Example: `python -m castaway_textarena games --readme plugins/textarena/README.md`.
    """
    _put(readme, "games", tables.games_table(texts, processes))


@app.command()
def results(
    readme: Readme = None,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Print or write the table of all runs of this task that were built.

    Example: `python -m castaway_textarena results --readme plugins/textarena/README.md`.
    """
    _put(readme, "results", tables.results_table(root))


def _put(readme: Path | None, name: str, text: str) -> None:
    if readme is None:
        typer.echo(text)
    else:
        tables.write_between(readme, name, text)


def main() -> None:
    """Run the command; a mistake is told in one sentence."""
    try:
        app()
    except CastawayError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
