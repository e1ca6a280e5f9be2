"""Text of scripted play, for pretraining the tiny base models."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from castaway.config.params import BaseTextParams, Params
from castaway.tasks.environment import Message, block_of, ids_in_a_row
from castaway.tasks.registry import make_environment, task_module


@dataclass(frozen=True, slots=True)
class Document:
    """A situation and answers to it, the first of which is what the player of the text does."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: Params, text: BaseTextParams) -> list[Document]:
    """Whole scripted episodes of the text's tasks, a share of whose answers slip."""
    return [document for task, count in text.episodes.items() for document in _documents(params, text, task, count)]


def task_words(text: BaseTextParams) -> list[str]:
    """The words that the text's tasks name, each once."""
    modules = [task_module(task) for task in text.episodes]
    return sorted({word for module in modules if hasattr(module, "vocabulary") for word in module.vocabulary()})


def _documents(params: Params, text: BaseTextParams, task: str, count: int) -> list[Document]:
    module = task_module(task)
    environment = make_environment(params, task)
    imagine = getattr(module, "imagine", None)
    documents = []
    played = module.training_ids(getattr(params, task))
    # Below those that the dataset stage plays.
    for task_id in ids_in_a_row(played, block_of(params.seed), count):
        random = Random(task_id)
        environment.reset(task_id, module.SCRIPTED_SEAT)
        play = module.demonstrator(random, params.base.carelessness)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                if imagine and random.random() < text.imagined:
                    prompt = imagine(environment, prompt, random)
                    reply = play(prompt)
                answers = [reply, *module.practice(prompt.observation, random, params.base.practice)]
                texts = [
                    module.slip(answer, random) if random.random() < params.base.slips else str(answer)
                    for answer in answers
                ]
                documents.append(Document(prompt.messages, tuple(texts)))
            environment.step(actions)
    return documents
