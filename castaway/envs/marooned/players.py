"""The expert and the demonstrator of MAROONED, which turn a prompt into a reply by a scripted sailor."""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.scripted import Careless, Saboteur, Script, Worker
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """The reply of a competent player of the prompt's role."""
    script: Script = Saboteur() if prompt.role == "traitor" else Worker()
    return _reply(script, prompt)


def demonstrator(random: Random, carelessness: float) -> Player:
    """An imperfect player of either role, aimless in the share `carelessness` of its turns."""
    script = Careless(random, carelessness)
    return lambda prompt: _reply(script, prompt)


def _reply(script: Script, prompt: Prompt) -> Reply:
    decision = script(prompt.observation)
    return Reply(decision.aim, str(decision.action))
