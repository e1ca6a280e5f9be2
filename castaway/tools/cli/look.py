"""Commands that show what was built: results, episodes and pages about a run, and what differs between builds."""

from pathlib import Path
from typing import Annotated

import typer

from castaway.config.errors import CastawayError
from castaway.tools.cli import Root

ForPrograms = Annotated[bool, typer.Option("--json", help="Print the same as JSON.")]
EpisodeFile = Annotated[Path, typer.Argument(help="A .jsonl file in data/RUN/evaluate/POLICY/.")]


def results(
    run: Annotated[
        str, typer.Argument(help="A run, or an experiment as NAME@RUN or as a file; default: a headline of every run.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="All tables of every run.")] = False,
    write: Annotated[Path | None, typer.Option(help="Write them between the markers in this file instead.")] = None,
    figure: Annotated[str, typer.Option(help="Of an experiment: another share, such as invalid_rate.")] = "",
    root: Root = Path(),
) -> None:
    """Print results as Markdown tables.

    Example: `castaway results strictbot`. With `--write FILE` they replace what is between `<!-- headline -->` and
    `<!-- /headline -->`; of one run, all or an experiment, between `<!-- results -->` and `<!-- /results -->`.
    """
    from castaway.config.mistakes import did_you_mean
    from castaway.metrics.built import evaluated
    from castaway.metrics.experiments import experiment_report
    from castaway.metrics.results import headline_table, run_report
    from castaway.tasks.registry import read_params, task_class

    if "@" in run or run.endswith(".json"):
        write_or_print(experiment_report(root, run, figure), "results", write)
        return
    if figure:
        raise CastawayError("--figure is a share of an experiment, and no experiment is named, such as seeds@marooned")
    params = read_params(root / "params.yaml")
    runs = evaluated(root, params.tasks)
    if run and run not in runs:
        raise CastawayError(f"there is no evaluation of {run!r}; {did_you_mean(run, runs)}")
    if not (run or every):
        write_or_print(headline_table(root, runs), "headline", write)
        return
    chosen = [run] if run else runs
    seats = {name: task_class(params.tasks[name].task).evaluation_seats[0] for name in chosen}
    reports = [f"### {name}\n\n{run_report(root, name, seats[name])}" for name in chosen]
    write_or_print("\n\n".join(reports), "results", write)


def report(
    run: Annotated[str, typer.Argument(help="A run that has been evaluated.")],
    to: Annotated[Path | None, typer.Option(help="File to write; default: scratch/RUN.html.")] = None,
    root: Root = Path(),
) -> None:
    """Write a page about a run.

    Example: `castaway report strictbot`. It has results with intervals, learning curves, corrections and saved
    episodes. The page is one file and asks no other host. MLflow has it too, among the artifacts of `evaluate`.
    """
    from castaway.tools.report import report_page

    write_page(to or root / "scratch" / f"{run}.html", report_page(root, run))


def episode(path: EpisodeFile) -> None:
    """Print a saved episode: replies, verdicts, result.

    Example: `castaway episode data/marooned/evaluate/final/1090000000.jsonl`.
    """
    from castaway.rollout.episodes import read_episode
    from castaway.tools.transcript import episode_text

    typer.echo(episode_text(read_episode(path)))


def replay(
    path: EpisodeFile,
    to: Annotated[Path | None, typer.Option(help="File to write; default: scratch/EPISODE.html.")] = None,
    root: Root = Path(),
) -> None:
    """Write a saved episode as a page that replays it.

    Example: `castaway replay data/marooned/evaluate/final/1090000000.jsonl --to game.html`. One of MAROONED shows the
    island.
    """
    from castaway.rollout.episodes import read_episode
    from castaway.tools.marooned.view import is_of_marooned, replay_page
    from castaway.tools.view import TaskView

    # Not next to the episode: its folder is an output of a stage, which DVC would take for changed.
    rows, place = read_episode(path), to or root / "scratch" / f"{path.stem}.html"
    write_page(place, replay_page(rows) if is_of_marooned(rows) else TaskView("").page(rows))


def images(
    to: Annotated[Path | None, typer.Option(help="The folder to write to, instead of docs/images.")] = None,
    root: Root = Path(),
) -> None:
    """Draw the picture of the README: success by PPO step.

    Example: `castaway images --to pictures`.
    """
    from castaway.tasks.registry import read_params
    from castaway.tools.report import learning_picture

    picture = learning_picture(root, read_params(root / "params.yaml"))
    write_page((to or root / "docs" / "images") / "learning.svg", picture)


def compare(
    revisions: Annotated[
        list[str] | None, typer.Argument(help="Commits and experiments; default: `now` and all of `dvc exp run`.")
    ] = None,
    run: Annotated[str, typer.Option(help="Only this run.")] = "",
    json: ForPrograms = False,
    root: Root = Path(),
) -> None:
    """Compare experiments, with seeds folded into one row.

    Example: `castaway compare HEAD~1 now --run strictbot`. A row for each set of parameters, with the success of SFT,
    PPO and the final policy: over seeds the mean and its 95 % interval, of a single build its own interval.
    """
    from castaway.tools.experiments import as_json, as_table, compared

    rows = compared(root, revisions or [], run)
    typer.echo(as_json(rows) if json else as_table(rows))


def lineage(
    target: Annotated[
        str, typer.Argument(help="RUN, RUN/STAGE, STAGE@RUN, a path in data, or a hash or id; default: every run.")
    ] = "",
    json: ForPrograms = False,
    root: Root = Path(),
) -> None:
    """Show which runs and commits made an artifact.

    Example: `castaway lineage strictbot/ppo`. Its ancestry, back to the base model; `--json` has the hashes, parameters
    and figures too. Only params.yaml, dvc.lock and the run records are read, so neither MLflow nor DVC's cache is
    needed.
    """
    from castaway.metrics.built import locked_stages
    from castaway.tools.lineage import ancestry, as_json, as_text, wanted

    stages = locked_stages(root)
    ancestries = [ancestry(root, stages, address) for address in wanted(stages, target)]
    typer.echo(as_json(ancestries) if json else as_text(one for ancestors in ancestries for one in ancestors))


def write_page(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{path} cannot be written: {error.strerror}") from None
    typer.echo(str(path))


def write_or_print(text: str, name: str, path: Path | None) -> None:
    """Print the text, or write it between the markers `name` in a file."""
    from castaway.metrics.markdown import replace_between

    if path is None:
        typer.echo(text)
        return
    try:
        path.write_text(replace_between(path.read_text("utf-8"), name, text), "utf-8")
    except (OSError, UnicodeDecodeError, CastawayError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or error
        raise CastawayError(f"{path} cannot be written to: {problem}") from None
    typer.echo(f"{path}: the part {name!r} is up to date")
