"""Whole players of MAROONED, made of the scripts: prompt in, reply out."""

from __future__ import annotations

from random import Random

from castaway.envs.marooned.scripted import Careless, Saboteur, Script, Worker
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """What a competent player of the prompt's role answers."""
    script: Script = Saboteur() if prompt.role == "traitor" else Worker()
    return _reply(script, prompt)


def demonstrator(random: Random, carelessness: float) -> Player:
    """An ordinary player: aimless in a share of its turns, whatever its role."""
    script = Careless(random, carelessness)
    return lambda prompt: _reply(script, prompt)


def _reply(script: Script, prompt: Prompt) -> Reply:
    decision = script(prompt.observation)
    return Reply(decision.aim, str(decision.action))
