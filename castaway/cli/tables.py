"""`castaway results` and `castaway rules`: tables, printed or written between the markers in a document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from castaway.errors import CastawayError


def results(
    root: Annotated[Path, typer.Option(help="The repository.")] = Path(),
    write: Annotated[Path | None, typer.Option(help="Write them between the markers in this file instead.")] = None,
    headline: Annotated[bool, typer.Option("--headline", help="One table with three rows per run.")] = False,
    markers: Annotated[str | None, typer.Option(help="Name of the markers; default: results, or headline.")] = None,
) -> None:
    """Print the results of every run that has been built, as Markdown tables.

    Example: `castaway results --write docs/results.md`.
    """
    from castaway.metrics.headline import headline_table
    from castaway.metrics.results import run_report
    from castaway.tasks.registry import read_params, task_class

    params = read_params(root / "params.yaml")
    folders = {run: root / "data" / run / "metrics" for run in params.tasks}
    built = {run: folder for run, folder in folders.items() if (folder / "evaluate.json").is_file()}
    if not built:
        raise CastawayError(f"there is no data/RUN/metrics/evaluate.json in {root.resolve()}; `dvc repro` builds it")
    if headline:
        show(headline_table(built), markers or "headline", write)
        return
    seats = {run: task_class(params.tasks[run].task).evaluation_seats[0] for run in built}
    reports = [f"### {run}\n\n{run_report(folder, seats[run])}" for run, folder in built.items()]
    show("\n\n".join(reports), markers or "results", write)


def rules(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios of MAROONED; default: all.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write them between the markers in this file instead.")] = None,
) -> None:
    """Print the constants and rewards of MAROONED's scenarios as tables.

    Example: `castaway rules skiff`.
    """
    from castaway.envs.marooned.scenario import load_scenario
    from castaway.tools.marooned.rulebook import SCENARIOS, constants_table, pay_table

    chosen = [load_scenario(name) for name in scenarios or SCENARIOS]
    same = all((one.colonist, one.traitor) == (chosen[0].colonist, chosen[0].traitor) for one in chosen)
    pay = [pay_table(one) if same else f"{one.name}:\n\n{pay_table(one)}" for one in (chosen[:1] if same else chosen)]
    show("\n\n".join([constants_table(chosen), *pay]), "rules", write)


def show(text: str, name: str, path: Path | None) -> None:
    """Print the text, or write it between the markers `name` in a file."""
    from castaway.metrics.markdown import replace_between

    if path is None:
        typer.echo(text)
        return
    try:
        before = path.read_text(encoding="utf-8")
        path.write_text(replace_between(before, name, text), encoding="utf-8")
    except (OSError, UnicodeDecodeError, CastawayError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or error
        raise CastawayError(f"{path} cannot be written to: {problem}") from None
    typer.echo(f"{path}: the part {name!r} is up to date")
