"""Commands about tasks and models: `castaway task` and `castaway model` for your own, and one for a game each."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from castaway.config.errors import CastawayError
from castaway.tools.cli import Root, group
from castaway.tools.cli.look import write_or_print

task = group("Create a task of your own, and check it.")
model = group("Check a model of your own.")
marooned = group("Play, serve and measure MAROONED; print its rules.")
openspiel = group("Explain a task id of OpenSpiel; say how much can be won against a model.")

Rendering = Literal["full", "compact"]
ScenarioName = Annotated[str, typer.Option(help="A scenario of MAROONED.")]


@task.command()
def new(
    name: Annotated[str, typer.Argument(help="The task's name: lower-case letters, digits and underscores.")],
    to: Annotated[Path | None, typer.Option(help="The folder to write; default: castaway-NAME.")] = None,
) -> None:
    """Write a package with a working game and its tests.

    Example: `castaway task new lights --to plugins/lights`. Nothing is installed.
    """
    from castaway.tools.plugins import write_package

    typer.echo(write_package(name, to or Path(f"castaway-{name.replace('_', '-')}")))


@task.command()
def check(
    name: Annotated[str, typer.Argument(help="The task's name, which is that of its entry point.")],
    root: Root = Path(),
) -> None:
    """Print what a task still lacks, one line each.

    Example: `castaway task check lights`. The exit status is 2 if there is anything. Notes are no faults.
    """
    from castaway.tools.check_task import check_task

    missing = list(check_task(name, root, on_note=lambda note: typer.echo(f"note: {note}")))
    for line in missing:
        typer.echo(f"missing: {line}")
    if missing:
        raise CastawayError(f"the task {name} lacks {len(missing)} {'thing' if len(missing) == 1 else 'things'}")
    typer.echo(f"the task {name} keeps its contract, and is in params.yaml")


@model.command("check")
def check_model(
    folder: Annotated[Path, typer.Argument(help="A folder with a model of transformers.")],
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="The type of its weights.")] = "bfloat16",
) -> None:
    """Try whether a model can be sampled from and trained.

    Example: `castaway model check data/answers/base --dtype float32`. It takes seconds, and says what it found; the
    exit status is 2 if the model cannot be used.
    """
    from castaway.tools.check_model import check_folder

    typer.echo("\n".join(check_folder(folder, dtype)))


@marooned.command()
def play(
    sailor: Annotated[str | None, typer.Option(help="The sailor you play; default: chosen by the task id.")] = None,
    scenario: ScenarioName = "skiff",
    game: Annotated[int, typer.Option(min=0, help="The task id: an equal id gives an equal game.")] = 0,
    model: Annotated[Path | None, typer.Option(help="Folder of a trained model for the other sailors.")] = None,
    rendering: Annotated[Rendering, typer.Option(help="Form of that model's prompts.")] = "compact",
    save: Annotated[Path | None, typer.Option(help="Write the episode here, for `castaway replay`.")] = None,
) -> None:
    """Play a sailor in the terminal.

    Example: `castaway marooned play --sailor Eve --model data/marooned/merge`. Scripts or a trained model play the
    others.
    """
    from castaway.tools.marooned.terminal import play_game

    play_game(scenario, game, sailor, model, rendering, save)


@marooned.command()
def openenv(
    scenario: ScenarioName = "skiff",
    rendering: Annotated[Rendering, typer.Option(help="Form of the prompts.")] = "full",
    host: Annotated[str, typer.Option(help="Address to listen on; there is no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    sessions: Annotated[int, typer.Option(min=1, help="Maximum number of games at the same time.")] = 256,
) -> None:
    """Serve the game to OpenEnv trainers until Ctrl-C.

    Example: `castaway marooned openenv --port 8000 --sessions 64`. Each connection plays its own game.
    """
    try:
        from castaway.integrations.openenv_server import make_app, serve
    except ImportError as error:
        raise CastawayError(f"{error.name} is missing: pip install 'castaway[open]'") from None

    serve(make_app(scenario, rendering, sessions), host, port, typer.echo)


@marooned.command()
def balance(
    scenario: ScenarioName = "skiff",
    episodes: Annotated[int, typer.Option(min=1, help="Number of games of each match.")] = 500,
    processes: Annotated[int, typer.Option(min=1, help="Number of games played in parallel.")] = 1,
) -> None:
    """Print how often scripted crews and traitors win.

    Example: `castaway marooned balance --scenario skiff --episodes 500 --processes 2`.
    """
    from castaway.tools.marooned.balance import balance_table

    typer.echo(balance_table(scenario, episodes, processes))


@marooned.command()
def cross(
    run: Annotated[str, typer.Argument(help="A run of MAROONED that was built up to PPO.")] = "marooned",
    games: Annotated[int, typer.Option(min=1, help="Number of games of each crew against each traitor.")] = 200,
    output: Annotated[Path | None, typer.Option(help="Also write OUTPUT.json and OUTPUT.md.")] = None,
    root: Root = Path(),
) -> None:
    """Print who wins with the SFT policy, PPO's or the scripts on each side, and which actions each plays.

    Example: `castaway marooned cross marooned --games 200 --output scratch/cross`. One policy plays all its sailors.
    """
    from castaway.tools.marooned.cross import cross_table

    found = cross_table(root, run, games)
    if output:
        output.with_suffix(".json").write_text(found.as_json(), "utf-8")
        output.with_suffix(".md").write_text(f"{found.as_markdown()}\n", "utf-8")
    typer.echo(found.as_markdown())


@marooned.command()
def rules(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios of MAROONED; default: all.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write them between the markers in this file instead.")] = None,
) -> None:
    """Print the constants and rewards of the scenarios.

    Example: `castaway marooned rules skiff`.
    """
    from castaway.envs.marooned.scenario import load_scenario
    from castaway.tools.marooned.rulebook import SCENARIOS, rulebook

    write_or_print(rulebook([load_scenario(name) for name in scenarios or SCENARIOS]), "rules", write)


@openspiel.command("id")
def explain(task_id: Annotated[int, typer.Argument(help="An id of the task openspiel.")]) -> None:
    """Explain a task id: game, variant, seat and seeds.

    Example: `castaway openspiel id 123456789`.
    """
    from castaway.envs.openspiel.ids import describe, episode_of

    try:
        typer.echo(describe(episode_of(task_id)))
    except ValueError as error:
        raise CastawayError(str(error)) from None


@openspiel.command()
def exploitability(
    model: Annotated[str, typer.Argument(help="A model's folder, or STAGE@RUN such as merge@openspiel.")],
    run: Annotated[str, typer.Option(help="The run whose settings of sampling are used.")] = "openspiel",
    game: Annotated[str, typer.Option(help="kuhn_poker or leduc_poker.")] = "leduc_poker",
    replies: Annotated[int, typer.Option(min=1, help="How often it is asked in each situation.")] = 64,
    root: Root = Path(),
) -> None:
    """Print what opponents who know a model would win from it.

    Example: `castaway openspiel exploitability merge@openspiel --game leduc_poker --replies 64`. It is asked in each of
    936 situations in Leduc poker, 12 in Kuhn poker. Few replies overstate it.
    """
    from castaway.tools.weights import params_with, weights_of

    params = params_with(root, run)
    if params.tasks[run].task != "openspiel":
        raise CastawayError(f"{run} is a run of {params.tasks[run].task}, and this is about games of OpenSpiel")
    weights = weights_of(model, root)

    from castaway.tools.openspiel.exploit import exploitability_table

    typer.echo(exploitability_table(weights, root, params, run, game, replies))
