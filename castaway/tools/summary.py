"""The last screen of a build: its stages, what was reached, one episode of each run, and what to type next.

It fits a terminal of 80 columns.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.config.sections import POLICIES
from castaway.metrics.built import from_stage
from castaway.metrics.results import HEADER, headline_rows, verdict
from castaway.rollout.episodes import Row, read_episode
from castaway.tools.view import view_of

WIDTH = 80
LONGEST_EPISODE = 12  # lines of an episode that are shown at most

Command = tuple[str, str]  # what to type, and what it does


def summary(root: Path, params: Params, ended: Sequence[Any], commands: Sequence[Command]) -> str:
    """The whole screen for outcomes of `flows.steps`; figures and episodes are of the runs that were evaluated."""
    addresses = [one.step.address for one in ended if one.state in ("Ran", "Cached")]
    runs = [run for stage, _, run in (address.partition("@") for address in addresses) if stage == "evaluate"]
    parts = [stages_table(ended), results(root, runs), *(episode(root, params, run) for run in runs), shown(commands)]
    return "\n\n".join(filter(None, parts))


def stages_table(ended: Sequence[Any]) -> str:
    """A line for each stage; one for all of them if nothing had to be done."""
    if all(one.state == "Cached" and not one.seconds for one in ended):
        return "Everything is up to date, nothing was built."
    rows = [(one.step.address, one.state, f"{one.seconds:.1f}" if one.seconds else "") for one in ended]
    lines = aligned(["stage", "state", "seconds"], rows, right=(2,))
    width = max(map(len, lines))
    # The message of a failure is an error of its own.
    room = WIDTH - width - 2
    reasons = [reason(one.message, one.step.address, room) if one.state != "Failed" else "" for one in ended]
    return "\n".join(f"{line:<{width}}  {why}".rstrip() for line, why in zip(lines, ["why", *reasons], strict=True))


def reason(message: str, address: str, room: int) -> str:
    """Why a stage ran, in at most `room` characters; a key of its own section or run loses what its name says already.

    `changed: ppo.steps, tasks.marooned.ppo.epochs` of `ppo@marooned` becomes `changed: steps, epochs`.
    """
    stage, _, run = address.partition("@")
    own = re.sub(rf"(?<= )(tasks\.{re.escape(run)}\.)?({stage}\.)?(?=\w)", "", message)
    return shorten(own, max(room, len(" ...")), placeholder=" ...")


def results(root: Path, runs: Sequence[str]) -> str:
    """The table of all runs, and a sentence for each; empty if none was evaluated."""
    rows, sentences = list[list[str]](), list[str]()
    for run in runs:
        with suppress(CastawayError):  # of a task that has other figures
            rows += [[run, *row] for row in from_stage(root, run, "evaluate", headline_rows)]
            sentences += wrap(f"{run}: {from_stage(root, run, 'evaluate', verdict)}", WIDTH, subsequent_indent="  ")
    lines = aligned(HEADER, rows, right=(2, 3, 4))
    return "\n".join([*lines, "", *sentences]) if rows else ""


def episode(root: Path, params: Params, run: str) -> str:
    """A saved episode of the final policy, one with success if there is one; empty if none can be read."""
    episodes: list[Sequence[Row]] = []
    for path in sorted((root / "data" / run / "evaluate" / POLICIES[-1]).glob("*.jsonl")):
        with suppress(CastawayError):
            episodes.append(read_episode(path))
    if not episodes:
        return ""
    rows = next((rows for rows in episodes if rows[0].get("success")), episodes[0])
    result = "succeeded" if rows[0].get("success") else "failed"
    title = f"{run}: a held-out episode in which `{POLICIES[-1]}` {result}"
    return "\n".join([title, "", *fitted(view_of(params.tasks[run].task).brief(rows))])


def fitted(lines: Sequence[str]) -> list[str]:
    """The lines, wrapped to the width; what is too much is left out at the end."""
    wrapped = [part for line in lines for part in wrap(line, WIDTH, subsequent_indent="    ") or [""]]
    return wrapped if len(wrapped) <= LONGEST_EPISODE else [*wrapped[: LONGEST_EPISODE - 1], "..."]


def next_commands(params: Params, folder: str = "") -> Iterator[Command]:
    """What one may do with the runs that were built, in the repository or in the copy in `folder`."""
    root, ui = (f" --root {folder}", f" ROOT={folder}") if folder else ("", "")
    yield ". .venv/bin/activate", "the shell finds castaway and dvc"
    for run in [run for run, one in params.tasks.items() if view_of(one.task).chats]:
        yield f"castaway chat --run {run}{root}", "talk to the model"
    yield f"castaway results --all{root}", "all figures"
    yield f"make ui{ui}", "Prefect and MLflow"
    if folder:
        yield "make repro", "the full build"


def shown(commands: Sequence[Command]) -> str:
    return "\n".join(["Next:", *(f"  {line}" for line in aligned(["", ""], commands)[1:])]) if commands else ""


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """The lines of a table, two blanks between its columns; those with the numbers in `right` are aligned right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    forms = [f"{{:{'>' if number in right else '<'}{width}}}" for number, width in enumerate(widths)]
    return ["  ".join(forms).format(*row).rstrip() for row in [header, *rows]]
