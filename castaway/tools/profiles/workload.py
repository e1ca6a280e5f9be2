"""How long the prompts and replies of a run are, and how many turns an episode has, from a little scripted play."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from time import process_time
from typing import Any

from castaway.config.bases import BaseTextParams
from castaway.config.params import Params
from castaway.tasks.environment import ids_in_a_row
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task

FIRST_ID = 900_000_000
"""The first training id, far from those that the stages use first."""
FEWEST_TURNS, MOST_TURNS = 240, 3000
"""So many turns are played at least; and so many at most, even if no episode has ended."""
CARELESSNESS = 0.1
LETTERS = 2.7
"""Letters of a token; with SmolLM2 2.6 (OpenSpiel), 2.9 (MAROONED) and 3.8 (STRICTBOT) in the full renderings."""
MARKS = 20
"""Tokens of a chat template around the messages of a prompt."""

WORD = re.compile(r"\w+|[^\w\s]|\n")
Count = Callable[[str], int]
"""The number of tokens of a text."""


@dataclass(frozen=True)
class Workload:
    """The texts of a run, in tokens, and its episodes."""

    shared: int
    """What all prompts begin with: the system message."""
    prompt: float
    """Mean length of a prompt."""
    longest: int
    """Length of the longest prompt with its reply."""
    reply: float
    """Mean length of a reply of the demonstrator; the policy writes about as much after SFT."""
    turns: float
    """Turns of an episode, of all agents that the policy plays, if the demonstrator plays it."""
    agents: float
    """Turns that are asked for at the same time in one episode."""
    seconds: float
    """Processor time of a turn, without a model."""


def workload_of(params: Params, run: str, root: Path) -> Workload:
    """The workload of a run.

    Args:
        params: of the repository.
        run: a key of `tasks`.
        root: the repository; if the base model is built there, its tokenizer counts.
    """
    base = params.tasks[run].base
    tiny = isinstance(params.bases[base], BaseTextParams)
    task = task_of(params, run)
    return workload(task, counter(root / "data" / base / "base", tiny), task.evaluation_seats[0])


def workload(task: Task[Any], count: Count, seat: str) -> Workload:
    """Play some episodes of a seat with the demonstrator, and measure them."""
    began = process_time()
    turns, episodes, steps = _play(task, seat)
    seconds = (process_time() - began) / len(turns)
    texts = [[count(text) for text in turn] for turn in turns[:: max(1, len(turns) // FEWEST_TURNS)]]
    prompts = [MARKS + system + user for system, user, _ in texts]
    return Workload(
        shared=round(mean(system for system, _, _ in texts)),
        prompt=mean(prompts),
        longest=max(prompt + reply for prompt, (_, _, reply) in zip(prompts, texts, strict=True)),
        reply=mean(reply for _, _, reply in texts),
        turns=len(turns) / episodes,
        agents=len(turns) / steps,
        seconds=seconds,
    )


def _play(task: Task[Any], seat: str) -> tuple[list[tuple[str, str, str]], int, int]:
    """System message, user message and reply of each turn; the episodes that ended, at least 1; and their steps."""
    environment, turns, ended, steps = task.make(), list[tuple[str, str, str]](), 0, 0
    ids = task.training_ids()
    # A task with few ids has a tenth of them from `FIRST_ID` on, which is enough for an estimate.
    for task_id in ids_in_a_row(ids, FIRST_ID, min(FEWEST_TURNS, len(ids) // 10 or 1)):
        environment.reset(task_id, seat)
        play = task.demonstrator(Random(task_id), CARELESSNESS)
        while not environment.done and len(turns) < MOST_TURNS:
            replies = [(prompt, play(prompt)) for prompt in environment.prompts()]
            environment.step({prompt.agent: reply.action for prompt, reply in replies})
            steps += 1
            for prompt, reply in replies:
                *system, user = (message["content"] for message in prompt.messages)
                turns.append(("\n".join(system), user, str(reply)))
        ended += environment.done
        if len(turns) >= FEWEST_TURNS:
            break
    return turns, max(1, ended), steps


def counter(folder: Path, tiny: bool) -> Count:
    """Counts the tokens of a text: with the tokenizer in the folder, if there is one; otherwise words or letters do.

    Args:
        folder: of the base model, which may not exist.
        tiny: whether it is a tiny model, whose tokens are about the words of its task.
    """
    if (folder / "tokenizer.json").is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    if tiny:
        return lambda text: len(WORD.findall(text))
    return lambda text: round(len(text) / LETTERS)
