"""Text of scripted play, for pretraining the tiny base model: every task that is built contributes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from castaway.envs.base import Message, block_of, ids_in_a_row
from castaway.envs.registry import make_environment, task_module
from castaway.params import Params


@dataclass(frozen=True, slots=True)
class Document:
    """A situation and answers to it, the first of which is what the player of the text does."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: Params) -> list[Document]:
    """Whole scripted episodes of every task that is built, a share of whose answers slip."""
    return [document for task in params.tasks for document in _documents(params, task)]


def _documents(params: Params, task: str) -> list[Document]:
    module = task_module(task)
    environment = make_environment(params, task)
    imagine = getattr(module, "imagine", None)
    documents = []
    played = module.training_ids(getattr(params, task))
    # Below those that the dataset stage plays.
    for task_id in ids_in_a_row(played, block_of(params.seed), params.base.episodes[task]):
        random = Random(task_id)
        environment.reset(task_id, module.SCRIPTED_SEAT)
        play = module.demonstrator(random, params.base.carelessness)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                if imagine and random.random() < params.base.imagined:
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
