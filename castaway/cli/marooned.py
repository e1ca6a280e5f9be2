"""Commands of MAROONED alone: `castaway balance`, `openenv` and `play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError


def balance(
    scenario: Annotated[str, typer.Option(help="A scenario of MAROONED.")] = "skiff",
    episodes: Annotated[int, typer.Option(min=1, help="Number of games of each match.")] = 500,
    processes: Annotated[int, typer.Option(min=1, help="Number of games played in parallel.")] = 1,
) -> None:
    """Play scripted crews against scripted traitors, and print how often and how each side wins.

    Example: `castaway balance --scenario skiff --episodes 500 --processes 2`.
    """
    from castaway.tools.marooned.balance import balance_table

    typer.echo(balance_table(scenario, episodes, processes))


def openenv(
    scenario: Annotated[str, typer.Option(help="A scenario of MAROONED.")] = "skiff",
    rendering: Annotated[str, typer.Option(help="Form of the prompts: full or compact.")] = "full",
    host: Annotated[str, typer.Option(help="Address to listen on; there is no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    sessions: Annotated[int, typer.Option(min=1, help="Maximum number of games at the same time.")] = 256,
) -> None:
    """Serve MAROONED to OpenEnv trainers until Ctrl-C; each connection plays its own game.

    Example: `castaway openenv --port 8000 --sessions 64`.
    """
    if rendering not in ("full", "compact"):
        raise CastawayError(f"there is no rendering {rendering!r}: choose full or compact")
    try:
        from castaway.integrations.openenv_server import make_app, serve
    except ImportError as error:
        raise CastawayError(f"{error.name} is missing: pip install 'castaway[open]'") from None

    serve(make_app(scenario, rendering, sessions), host, port, typer.echo)


def play(
    sailor: Annotated[str | None, typer.Option(help="The sailor you play; default: chosen by the task id.")] = None,
    scenario: Annotated[str, typer.Option(help="A scenario of MAROONED.")] = "skiff",
    game: Annotated[int, typer.Option(min=0, help="The task id: an equal id gives an equal game.")] = 0,
    model: Annotated[Path | None, typer.Option(help="Folder of a trained model for the other sailors.")] = None,
    rendering: Annotated[str, typer.Option(help="Form of that model's prompts: full or compact.")] = "compact",
    save: Annotated[Path | None, typer.Option(help="Write the episode here, for `castaway replay`.")] = None,
) -> None:
    """Play a sailor of MAROONED in the terminal; scripts or a trained model play the others.

    Example: `castaway play --sailor Eve --model data/marooned/merge`.
    """
    from castaway.tools.marooned.terminal import play_game

    play_game(scenario, game, sailor, model, rendering, save)
