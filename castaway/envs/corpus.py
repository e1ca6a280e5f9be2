"""Text of scripted play, for pretraining the tiny base model: every task contributes its share."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from castaway.envs.base import Message, block_of
from castaway.envs.registry import TASKS, make_environment, task_module
from castaway.params import Params


@dataclass(frozen=True, slots=True)
class Document:
    """A situation and answers to it, the first of which was played."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: Params) -> list[Document]:
    """Whole scripted episodes of every task, a share of whose answers slip."""
    return [document for task in TASKS for document in _documents(params, task)]


def _documents(params: Params, task: str) -> list[Document]:
    module = task_module(task)
    environment = make_environment(params, task)
    documents = []
    for number in range(params.base.episodes):
        task_id = block_of(params.seed) + number  # below those that the dataset stage plays
        random = Random(task_id)
        environment.reset(task_id, "all")
        play = module.demonstrator(random, params.base.carelessness)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                answers = [reply, *module.practice(prompt.observation, random, params.base.practice)]
                texts = [
                    module.slip(answer, random) if random.random() < params.base.slips else str(answer)
                    for answer in answers
                ]
                documents.append(Document(prompt.messages, tuple(texts)))
            environment.step(actions)
    return documents
