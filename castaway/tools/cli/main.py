"""The command `castaway`: set up, look at results, compare builds, play, and serve.

    castaway --help

It reads the outputs of the pipeline and changes none of them; to build, use `dvc repro` or `python -m flows`. What it
writes, an option names, or its help. An error is printed in one line, with exit status 2.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from castaway.config.errors import CastawayError
from castaway.processes.environment import prepare
from castaway.tools.cli import Root, group, look, weights
from castaway.tools.cli.tasks import marooned, model, openspiel, task
from castaway.tools.cli.teacher import app as teacher

# Most modules are imported inside the commands, so that `castaway --help` answers at once.

CHAT_TEMPERATURE, CHAT_TOKENS = 0.3, 96
"""Of a chat, if nothing else is asked for: the temperature, and the maximum length of a reply in tokens."""


class Groups(TyperGroup):
    """Shows the commands by group, and prints any error in one line, with exit status 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        prepare()
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


app = group(
    "Set up, look at results, compare, play and serve. To build, use `dvc repro`.",
    name="castaway",
    cls=Groups,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as data.")] = False, root: Root = Path()
) -> None:
    """Say whether this host can build, and what is missing.

    Example: `castaway doctor --json`. Exit status 1 if it cannot.
    """
    import json
    from dataclasses import asdict

    from castaway.tools.doctor import examine

    findings = examine(root)
    typer.echo(json.dumps([asdict(one) for one in findings], indent=2) if as_json else "\n".join(map(str, findings)))
    if any(one.state == "failed" for one in findings):
        raise typer.Exit(1)


def params(path: Annotated[Path, typer.Argument(help="The file to check.")] = Path("params.yaml")) -> None:
    """Check params.yaml, and link the plug-ins that it names.

    Example: `castaway params scratch/demo/params.yaml`. Prints OK, or the error in one line.
    """
    from castaway.tasks.registry import read_params
    from castaway.tools.plugins import link

    link(path.parent, read_params(path))
    typer.echo("OK")


def profile(
    name: Annotated[str, typer.Argument(help="A profile, or a complete file of parameters; default: list them.")] = "",
    write: Annotated[bool, typer.Option("--write", help="Replace params.yaml by it.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if params.yaml has changes that are not in git.")
    ] = False,
    root: Root = Path(),
) -> None:
    """List the profiles, show one, or put it in place.

    Example: `castaway profile smollm2`. It shows what changes in params.yaml, and the memory that the runs need.
    """
    from castaway.tools.profiles import listing, profile_path, put_in_place, report

    if write and not name:
        raise CastawayError("name the profile to write; `castaway profile` lists them")
    if write:
        typer.echo(put_in_place(profile_path(name, root), root, force))
    else:
        typer.echo(report(profile_path(name, root), root) if name else listing(root))


def configure(
    root: Root = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a profile of that name.")] = False,
) -> None:
    """Write a profile for your hardware, question by question.

    Example: `castaway configure --force`. It asks for accelerator, model, tasks, teacher and memory; Return takes the
    default.
    """
    from castaway.tools.configure import configure as ask

    typer.echo(ask(root, force))


def chat(
    model: Annotated[Path | None, typer.Argument(help="Folder of the model; default: data/RUN/merge.")] = None,
    run: Annotated[str, typer.Option(help="Use the prompts of this run's task; a known fact may follow a |.")] = "",
    facts: Annotated[Path | None, typer.Option(help="Look up facts here too: a text file, or a folder.")] = None,
    score: Annotated[bool, typer.Option("--score", help="Show the reward model's score, and the level.")] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: always the most likely token.")] = CHAT_TEMPERATURE,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum length of a reply, in tokens.")] = CHAT_TOKENS,
    seed: Annotated[int, typer.Option(help="Random seed for sampling.")] = 1,
    root: Root = Path(),
) -> None:
    """Chat with a trained model.

    Example: `castaway chat --run strictbot --score`. A line is a turn: /new starts over, /quit ends. STRICTBOT takes
    each line by itself.
    """
    from castaway.config.mistakes import did_you_mean
    from castaway.tasks.registry import read_params
    from castaway.tools.view import TaskView, view_of

    if not run and (score or facts or model is None):
        raise CastawayError("name a model's folder or a --run; --score and --facts need a --run")
    view = TaskView("")
    if run:
        views = {name: view_of(one.task, one.game) for name, one in read_params(root / "params.yaml").tasks.items()}
        chats = [name for name, one in views.items() if one.chats]
        if run not in chats:
            raise CastawayError(f"there is no chat with the run {run!r}; {did_you_mean(run, chats)}")
        view = views[run]
        if facts and not view.looks_up:
            raise CastawayError(f"a chat with the run {run!r} looks nothing up; leave out --facts")
        if facts and not facts.exists():
            raise CastawayError(f"{facts} does not exist")
        view.facts = facts
    folder = model or root / "data" / run / "merge"
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model (config.json is missing); `dvc repro` builds data/RUN/merge")

    from castaway.models.training import seed_everything
    from castaway.tools.chat import converse, load_chat, load_scorer

    seed_everything(seed, threads=1)
    conversation = load_chat(folder, view.chat_messages, temperature, max_new_tokens)
    if view.one_turn:
        conversation.one_turn, conversation.faulty = True, view.chat_fault
    scorer = load_scorer(root, run, conversation.tokenizer) if score else None
    converse(conversation, scorer, view)


def push(
    run: Annotated[str, typer.Argument(help="A run that is merged and evaluated.")],
    repository: Annotated[str, typer.Argument(help="OWNER/NAME on the Hub; created if it is not there.")],
    yes: Annotated[bool, typer.Option("--yes", help="Upload; without it, it is only shown what would be.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Let everybody see a repository that is created.")] = False,
    root: Root = Path(),
) -> None:
    """Upload a run's merged model to the Hugging Face Hub.

    Example: `castaway push strictbot you/strictbot --yes`. The model card has its results and its lineage. HF_TOKEN has
    the token, HF_ENDPOINT the address of another Hub. Exit status 2 if it could not be uploaded.
    """
    from castaway.tools.publish import publish, upload_of

    if repository.count("/") != 1 or not all(repository.split("/")):
        raise CastawayError(f"the repository is {repository!r}, expected OWNER/NAME")
    files, card = upload_of(root, run, repository)
    if not yes:
        typer.echo(card)
        for name, path in files.items():
            typer.echo(f"{path.stat().st_size / 2**20:10.2f} MiB  {name}")
        typer.echo("nothing was uploaded; --yes does it")
        return
    typer.echo(publish(files, card, repository, private=not public, message=f"Castaway: the run {run}"))


for heading, commands in {
    "Set up": (doctor, configure, profile, params),
    "Look at results": (look.results, look.report, look.episode, look.replay, look.images),
    "Compare builds": (look.compare, look.lineage),
    "Use a model": (weights.evaluate, weights.merge, chat, push),
}.items():
    for command in commands:
        app.command(rich_help_panel=heading)(command)
app.add_typer(task, name="task", rich_help_panel="Set up")
app.add_typer(model, name="model", rich_help_panel="Set up")
app.add_typer(teacher, name="teacher", rich_help_panel="Serve")
app.add_typer(marooned, name="marooned", rich_help_panel="One game")
app.add_typer(openspiel, name="openspiel", rich_help_panel="One game")

if __name__ == "__main__":
    app()
