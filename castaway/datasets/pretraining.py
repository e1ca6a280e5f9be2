"""Pretraining text for the tiny base models, from scripted play."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from castaway.config.bases import BaseTextParams
from castaway.config.sections import BaseParams
from castaway.tasks.draws import place_of
from castaway.tasks.environment import Message, Prompt, ids_in_a_row
from castaway.tasks.registry import load_task
from castaway.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Document:
    """A situation with one or more replies; the first is the demonstrator's."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: BaseParams, text: BaseTextParams, seed: int) -> list[Document]:
    """The turns of scripted episodes of all tasks in `text`; some of the replies (`params.slips`) break the format."""
    return [
        document
        for name, own in text.text.items()
        for document in _documents(params, text.synthetic_share, load_task(name, own.game), own.episodes, seed)
    ]


def task_words(text: BaseTextParams) -> list[str]:
    """The vocabulary of all tasks in `text`, sorted and without duplicates."""
    tasks = [load_task(name, own.game) for name, own in text.text.items()]
    return sorted({word for task in tasks for word in task.vocabulary()})


def _documents(
    params: BaseParams, synthetic_share: float, task: Task[Any], episodes: int, seed: int
) -> Iterator[Document]:
    """The turns of scripted episodes; a share of the situations is synthetic if the task makes such."""
    environment = task.make()
    # These ids are below those of the dataset stage, so pretraining sees no episode of the dataset.
    for task_id in ids_in_a_row(task.training_ids(), place_of("base text", seed), episodes):
        random = Random(task_id)
        environment.reset(task_id, task.scripted_seat)
        play = task.demonstrator(random, params.carelessness)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                # A synthetic situation replaces only the text: the episode goes on with the action in the real one.
                shown: Prompt = prompt
                if task.makes_synthetic and random.random() < synthetic_share:
                    shown = task.synthetic(environment, prompt, random)
                    reply = play(shown)
                replies = [reply, *task.practice(shown.observation, random, params.practice)]
                texts = [
                    task.slip(answer, random) if random.random() < params.slips else str(answer) for answer in replies
                ]
                yield Document(shown.messages, tuple(texts))
            environment.step(actions)
