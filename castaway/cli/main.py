"""The command `castaway`: check and choose parameters, show results and episodes, play, and serve environments.

    castaway --help

It reads the outputs of the pipeline and changes none of them; to build, use `dvc repro` or `python -m flows`. What it
writes, an option names, or its help. An error is printed in one line, with exit status 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from castaway.cli.compare import compare
from castaway.cli.diff import diff
from castaway.cli.doctor import doctor
from castaway.cli.help import show_help
from castaway.cli.lineage import lineage
from castaway.cli.marooned import balance, openenv, play
from castaway.cli.profile import configure, profile
from castaway.cli.push import push
from castaway.cli.report import report
from castaway.cli.tables import results, rules
from castaway.cli.task import app as task
from castaway.cli.teacher import app as teacher
from castaway.errors import CastawayError

# Most modules are imported inside the commands, so that `castaway --help` answers at once.

CHAT_TEMPERATURE, CHAT_TOKENS = 0.3, 96
"""Of a chat, if nothing else is asked for: the temperature, and the maximum length of a reply in tokens."""


class OneLineErrors(TyperGroup):
    """Prints any error in one line, with exit status 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command and exit with its status."""
        try:
            status = super().main(*args, **{**kwargs, "standalone_mode": False})
        except CastawayError as error:
            problem = str(error)
        except TyperException as error:  # unknown command, wrong option or argument
            problem = error.format_message() if hasattr(error, "format_message") else str(error)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(130)
        else:
            sys.exit(status if isinstance(status, int) else 0)
        print(f"error: {' '.join(problem.split())}", file=sys.stderr)
        sys.exit(2)


app = typer.Typer(
    name="castaway",
    cls=OneLineErrors,
    help="Inspect a Castaway repository. To build, use `dvc repro`.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(task, name="task")
app.add_typer(teacher, name="teacher")
app.command()(compare)
app.command()(diff)
app.command()(doctor)
app.command()(lineage)
app.command()(push)
app.command()(report)
app.command()(profile)
app.command()(configure)
app.command()(results)
app.command()(rules)
app.command()(balance)
app.command()(openenv)
app.command()(play)


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Inspect a Castaway repository. To build, use `dvc repro`."""
    show_help(context)


@app.command()
def params(path: Annotated[Path, typer.Argument(help="The file to check.")] = Path("params.yaml")) -> None:
    """Check params.yaml: print OK, or the error in one line.

    Example: `castaway params scratch/demo/params.yaml`.
    """
    from castaway.tasks.registry import read_params

    read_params(path)
    typer.echo("OK")


@app.command()
def chat(
    model: Annotated[Path | None, typer.Argument(help="Folder of the model; default: data/RUN/merge.")] = None,
    run: Annotated[str, typer.Option(help="Use the prompts of this run's task; a known fact may follow a |.")] = "",
    score: Annotated[bool, typer.Option("--score", help="Show the reward model's score, and the level.")] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: always the most likely token.")] = CHAT_TEMPERATURE,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum length of a reply, in tokens.")] = CHAT_TOKENS,
    seed: Annotated[int, typer.Option(help="Random seed for sampling.")] = 1,
    root: Annotated[Path, typer.Option(help="The repository with the run's models.")] = Path(),
) -> None:
    """Chat with a trained model, a line a turn: /new starts over, /quit ends. STRICTBOT takes each line by itself.

    Example: `castaway chat --run strictbot --score`.
    """
    from castaway.tasks.registry import read_params
    from castaway.tools.view import view_of

    if not run and (score or model is None):
        raise CastawayError("name a model's folder or a --run; --score needs a --run")
    runs = read_params(root / "params.yaml").tasks if run else {}
    views = {name: view_of(one.task, one.game) for name, one in runs.items()}
    with_chat = {name: view for name, view in views.items() if view.chats}
    if run and run not in with_chat:
        raise CastawayError(f"--run is {run!r}, expected a run whose task has a chat: {', '.join(with_chat) or 'none'}")

    folder = model or root / "data" / run / "merge"
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model (config.json is missing); `dvc repro` builds data/RUN/merge")

    from castaway.models.training import seed_everything
    from castaway.tools.chat import converse, load_chat, load_scorer, plain

    seed_everything(seed, threads=1)
    view = with_chat.get(run)
    conversation = load_chat(folder, view.chat_messages if view else plain, temperature, max_new_tokens)
    conversation.one_turn = bool(view and view.one_turn)
    scorer = load_scorer(root, run, conversation.tokenizer) if score else None
    converse(conversation, scorer, view.chat_remark if view and score else None)


@app.command()
def episode(path: Annotated[Path, typer.Argument(help="A .jsonl file in data/RUN/evaluate/POLICY/.")]) -> None:
    """Print a saved episode: the replies, the verdicts on them, and the result.

    Example: `castaway episode data/marooned/evaluate/final/1015000000.jsonl`.
    """
    from castaway.datasets.episodes import read_episode
    from castaway.tools.transcript import episode_text

    typer.echo(episode_text(read_episode(path)))


@app.command()
def replay(
    path: Annotated[Path, typer.Argument(help="A .jsonl file in data/RUN/evaluate/POLICY/.")],
    to: Annotated[Path | None, typer.Option(help="File to write; default: scratch/EPISODE.html.")] = None,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Write a saved episode as one HTML file that replays it in a browser; one of MAROONED with the island.

    Example: `castaway replay data/marooned/evaluate/final/1015000000.jsonl --to game.html`.
    """
    from castaway.datasets.episodes import read_episode
    from castaway.tools.marooned.replay.moments import is_of_marooned
    from castaway.tools.marooned.replay.page import replay_page
    from castaway.tools.replay.page import episode_page

    # Not beside the episode: its folder is an output of a stage, which DVC would take for changed.
    rows, target = read_episode(path), to or root / "scratch" / f"{path.stem}.html"
    page = replay_page(rows) if is_of_marooned(rows) else episode_page(rows)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{target} cannot be written: {error.strerror}") from None
    typer.echo(str(target))


@app.command()
def images(
    to: Annotated[Path | None, typer.Option(help="The folder to write to, instead of docs/images.")] = None,
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
) -> None:
    """Draw the pictures of the README: the stages, what PPO learned, and the page of an episode.

    Example: `castaway images --to pictures`.
    """
    from castaway.tasks.registry import read_params
    from castaway.tools.images import draw_images

    for path in draw_images(root, read_params(root / "params.yaml"), to or root / "docs" / "images"):
        typer.echo(str(path))


if __name__ == "__main__":
    app()
