"""Text of scripted play, for pretraining the tiny base models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from castaway.config.params import BaseParams, BaseTextParams
from castaway.tasks.environment import Message, Prompt, block_of, ids_in_a_row
from castaway.tasks.registry import load_task
from castaway.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Document:
    """A situation and answers to it, the first of which is what the player of the text does."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: BaseParams, text: BaseTextParams, seed: int) -> list[Document]:
    """Whole scripted episodes of the text's tasks, a share of whose answers break the format."""
    return [
        document
        for name, own in text.text.items()
        for document in _documents(params, text.synthetic_share, load_task(name, own.game), own.episodes, seed)
    ]


def task_words(text: BaseTextParams) -> list[str]:
    """The words that the text's tasks name, each once."""
    tasks = [load_task(name, own.game) for name, own in text.text.items()]
    return sorted({word for task in tasks for word in task.vocabulary()})


def _documents(
    params: BaseParams, synthetic_share: float, task: Task[Any], episodes: int, seed: int
) -> Iterator[Document]:
    """The turns of scripted episodes; a share of the situations is synthetic, where the task makes some."""
    environment = task.make()
    # Below those that the dataset stage plays.
    for task_id in ids_in_a_row(task.training_ids(), block_of(seed), episodes):
        random = Random(task_id)
        environment.reset(task_id, task.scripted_seat)
        play = task.demonstrator(random, params.carelessness)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                shown: Prompt = prompt
                if task.makes_synthetic and random.random() < synthetic_share:
                    shown = task.synthetic(environment, prompt, random)
                    reply = play(shown)
                answers = [reply, *task.practice(shown.observation, random, params.practice)]
                texts = [
                    task.slip(answer, random) if random.random() < params.slips else str(answer) for answer in answers
                ]
                yield Document(shown.messages, tuple(texts))
            environment.step(actions)
