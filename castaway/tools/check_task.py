"""Checks a task: the contract of its environment and players, and its entries in params.yaml and dvc.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from castaway.config.params import Params
from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError
from castaway.tasks.checker import check_environment
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import read_params, task_class, task_of
from castaway.tasks.reply import parse_reply
from castaway.tasks.shortage import shared_blocks, shortages
from castaway.tasks.task import Task

TURNS = 40
"""Number of turns of each player that are checked."""


def findings(name: str, root: Path, on_note: Callable[[str], None] = lambda note: None) -> Iterator[str]:
    """Yield one line for each thing that the task lacks, the most important first.

    Args:
        name: of the task.
        root: the repository with params.yaml and dvc.yaml.
        on_note: called with what is worth knowing though the contract allows it.
    """
    try:
        found = task_class(name)
    except CastawayError as error:
        yield str(error)
        return
    lacking = [one for one in ("name", "game_model", "evaluation_seats") if not hasattr(found, one)]
    if lacking:
        yield f"{found.__name__} does not set {', '.join(lacking)}"
        return
    if found.name != name:
        yield f"{found.__name__}.name is {found.name!r}, expected the name of its entry point, {name!r}"
    try:
        params = read_params(root / "params.yaml")
    except CastawayError as error:
        yield str(error)
        return
    runs = [run for run, block in params.tasks.items() if block.task == name]
    if not runs:
        yield f"params.yaml has no run of the task {name}: add a block under `tasks`, with a base model under `bases`"
        return
    for run in runs:
        yield from _task_findings(task_of(params, run), run, on_note)
        yield from _id_findings(params, run, on_note)
    yield from _file_findings(root, params, runs)


def _task_findings(task: Task[Any], run: str, on_note: Callable[[str], None]) -> Iterator[str]:
    """Check the contract of the environment, the players, the curriculum and the training ids of one run."""
    try:
        ids = list(islice(task.training_ids(), 3))
        for note in check_environment(task.make, ids):
            on_note(f"{run}: {note}")
        environment = task.make()
        missing = [seat for seat in (*task.evaluation_seats, task.scripted_seat) if seat not in environment.seats]
        if missing:
            yield f"{run}: the environment has no seat {missing[0]!r}; it has {', '.join(environment.seats)}"
            return
        yield from _player_findings(task, run)
        if not task.curriculum(10):
            yield f"{run}: curriculum gives no stage, expected at least one"
        if any(task_id >= HELD_OUT_START for task_id in ids):
            yield f"{run}: training_ids holds held-out ids, expected ids below {HELD_OUT_START}"
    except CastawayError as error:
        yield f"{run}: {error}"


def _player_findings(task: Task[Any], run: str) -> Iterator[str]:
    """Check that the replies of expert and demonstrator are legal, and parse to the same reasoning and action."""
    environment, random = task.make(), Random(0)
    for who, play in (("expert", task.expert), ("demonstrator", task.demonstrator(random, 0.4))):
        turns = 0
        for task_id in islice(task.training_ids(), TURNS):
            environment.reset(task_id, task.scripted_seat)
            while not environment.done and turns < TURNS:
                replies = {prompt.agent: (prompt, play(prompt)) for prompt in environment.prompts()}
                for prompt, reply in replies.values():
                    if refusal := environment.rules.refusal(prompt.observation, reply.action):
                        yield f"{run}: the {who} answers {reply.action!r}, which is not legal: {refusal.sentence}"
                        return
                    if parse_reply(str(reply)) != reply:
                        yield f"{run}: the {who}'s {str(reply)!r} does not parse to the same reasoning and action"
                        return
                environment.step({agent: reply.action for agent, (_, reply) in replies.items()})
                turns += len(replies)


def _id_findings(params: Params, run: str, on_note: Callable[[str], None]) -> Iterator[str]:
    """Check that the tasks of a run have enough ids for its stages; whether seeds share held-out ids is a note."""
    try:
        yield from shortages(params, run)
        if note := shared_blocks(params, run):
            on_note(note)
    except CastawayError as error:
        yield f"{run}: {error}"


def _file_findings(root: Path, params: Params, runs: list[str]) -> Iterator[str]:
    """Check that dvc.yaml lists the runs and their base models."""
    known: dict[str, Any] = {}
    for part in read_yaml(root / "dvc.yaml").get("vars", []):
        for names in part.values():
            known |= names
    for name in dict.fromkeys([*runs, *(params.tasks[run].base for run in runs)]):
        if name not in known:
            yield f"dvc.yaml does not know {name}: run `python -m flows closure --write`"
