"""Whole players of the games: prompt in, reply out."""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.expert import best_move
from castaway.envs.openspiel.menu import MenuRules
from castaway.envs.openspiel.practice import AIMLESS
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """The move that a look ahead finds best."""
    action = str(best_move(prompt.observation) + 1)
    return Reply(MenuRules().reason(prompt.observation, action), action)


def demonstrator(random: Random, carelessness: float) -> Player:
    """An ordinary player: any move will do in a share of its turns."""

    def play(prompt: Prompt) -> Reply:
        if random.random() >= carelessness:
            return expert(prompt)
        return Reply(AIMLESS, str(random.randrange(len(prompt.observation.moves)) + 1))

    return play
