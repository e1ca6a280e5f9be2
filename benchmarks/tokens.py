"""Counts the tokens of prompts and replies in the rendering `full`, for each run of params.yaml and each tokenizer.

    python -m benchmarks.tokens data/base/smollm2 ANOTHER_FOLDER

A folder holds a tokenizer as transformers saves it, `tokenizer.json`, and gives its row in the table its name. The text
of the messages is counted, without the marks of a chat template, which add ten to thirty tokens to a prompt. The turns
are scripted; where sailors talk, prompts of MAROONED are longer (tests/castaway/envs/marooned/test_full.py has a
bound).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from transformers import PreTrainedTokenizerBase

from benchmarks.folders import model_folder
from castaway.config.params import Params
from castaway.metrics.markdown import table
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import ids_in_a_row
from castaway.tasks.registry import load_task, read_params
from castaway.tasks.task import Task

FIRST_ID = 900_000_000
"""The first training id, far from those that the stages use first."""
CARELESSNESS = 0.1
SCENARIOS = ("skiff", "classic")
HEADER = ["run", "tokenizer", "system", "user, mean", "longest", "reply, mean", "longest"]

Turn = tuple[str, str, str]
"""System message, user message and reply."""


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.tokens", description="Tokens of prompts and replies.")
    top.add_argument("tokenizers", nargs="+", type=model_folder, metavar="FOLDER", help="with a tokenizer.json")
    top.add_argument("--turns", type=int, default=2000, help="number of turns of each run")
    asked = top.parse_args()
    params = read_params(Path(__file__).parents[1] / "params.yaml")
    print(
        tokens_table(
            params, {folder.name: ChatTokenizer.load(folder).tokenizer for folder in asked.tokenizers}, asked.turns
        )
    )


def tokens_table(params: Params, tokenizers: dict[str, PreTrainedTokenizerBase], most: int) -> str:
    """A Markdown table: one row per run and tokenizer; of several system messages the longest counts."""
    rows = []
    for run, task in runs(params):
        found = turns(task, most)
        for name, tokenizer in tokenizers.items():
            system, user, reply = (counts(tokenizer, texts) for texts in zip(*found, strict=True))
            cells = [max(system), mean(user), max(user), mean(reply), max(reply)]
            rows.append([run, name, *(f"{cell:.0f}" for cell in cells)])
    return f"{most:,} scripted turns of each run.\n\n{table(HEADER, rows)}"


def runs(params: Params) -> Iterator[tuple[str, Task[Any]]]:
    """Each run of params.yaml whose game has renderings, in the rendering `full`; MAROONED in both scenarios."""
    for run, block in params.tasks.items():
        if not hasattr(block.game, "rendering"):
            continue
        changes = [{"scenario": scenario} for scenario in SCENARIOS] if hasattr(block.game, "scenario") else [{}]
        for change in changes:
            game = block.game.model_copy(update={"rendering": "full", **change})
            yield ", ".join([run, *change.values()]), load_task(block.task, game)


def turns(task: Task[Any], most: int) -> list[Turn]:
    """The first `most` turns of scripted play, from `FIRST_ID` on."""
    environment, found = task.make(), list[Turn]()
    for task_id in ids_in_a_row(task.training_ids(), FIRST_ID, most):
        environment.reset(task_id, task.scripted_seat)
        play = task.demonstrator(Random(task_id), CARELESSNESS)
        while not environment.done and len(found) < most:
            replies = [(prompt, play(prompt)) for prompt in environment.prompts()]
            environment.step({prompt.agent: reply.action for prompt, reply in replies})
            for prompt, reply in replies:
                system, user = (message["content"] for message in prompt.messages)
                found.append((system, user, str(reply)))
        if len(found) >= most:
            break
    return found[:most]


def counts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[int]:
    return [len(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]


if __name__ == "__main__":
    main()
