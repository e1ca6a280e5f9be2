"""Commands for a model that any training left, outside of a build: `castaway evaluate` and `castaway merge`."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from castaway.tools.cli import Root
from castaway.tools.cli.look import write_page


def evaluate(
    model: Annotated[str, typer.Argument(help="A model's folder, an adapter's, or STAGE@RUN such as ppo@strictbot.")],
    run: Annotated[str, typer.Option(help="The run whose game is played, with its settings of sampling.")],
    base: Annotated[str, typer.Option(help="For an adapter: its base, a folder or STAGE@RUN.")] = "",
    seat: Annotated[
        str, typer.Option("--seat", "--opponent", help="Seat or opponent: traitor, mcts-50; default: the main one.")
    ] = "",
    game: Annotated[str, typer.Option(help="Only episodes of this kind, such as hex; default: all.")] = "",
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes of each player.")] = 200,
    temperature: Annotated[
        float | None, typer.Option(min=1e-3, help="Of sampling; default: evaluate.temperature of the run.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file too.")] = None,
    root: Root = Path(),
) -> None:
    """Play validation episodes with any model.

    Example: `castaway evaluate ppo@openspiel --run openspiel --opponent mcts-50 --game hex`. Prints success with 95 %
    intervals beside a random player and the expert. Held-out blocks are never played: those are for the stage
    `evaluate` alone. The ids are those that settings are chosen on, so these figures are no final result.
    """
    from castaway.tools.weights import params_with, weights_of

    params = params_with(root, run)
    weights = weights_of(model, root, base)

    from castaway.tools import evaluation

    wanted: dict[str, Any] = {"seat": seat, "game": game, "episodes": episodes, "temperature": temperature}
    players = evaluation.evaluate(weights, root, params, run, **wanted)
    typer.echo(evaluation.as_table(players))
    if to:
        found = {"model": model, "run": run, "ids": "validation", **wanted, "players": players}
        write_page(to, f"{json.dumps(found, indent=2)}\n")


def merge(
    base: Annotated[str, typer.Option(help="The model that the adapter was trained on: a folder, or STAGE@RUN.")],
    adapter: Annotated[Path, typer.Option(help="The folder of an adapter of PEFT.")],
    output: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None, typer.Option(help="Of the weights; default: as in the base.")
    ] = None,
    root: Root = Path(),
) -> None:
    """Merge an adapter into a model.

    Example: `castaway merge --base sft@strictbot --adapter data/strictbot/ppo --output models/tutor`. Writes
    safetensors and the tokenizer, reloads them, and fails if next-token distributions have changed by more than
    rounding; then nothing is left. The model can be a base model: `path` in a block under `bases`.
    """
    from castaway.tools.weights import merge_folder, weights_of

    typer.echo(merge_folder(weights_of(str(adapter), root, base), output, dtype or ""))
