"""The expert and the demonstrator of the games, which turn a prompt into a reply."""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.expert import best_move
from castaway.envs.openspiel.menu import MenuRules
from castaway.envs.openspiel.practice import AIMLESS
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """The reply with the best move by `castaway.envs.openspiel.expert`."""
    action = str(best_move(prompt.observation) + 1)
    return Reply(MenuRules().reason(prompt.observation, action), action)


def demonstrator(random: Random, carelessness: float) -> Player:
    """An imperfect player: a random move in the share `carelessness` of its turns, otherwise the expert's."""

    def play(prompt: Prompt) -> Reply:
        if random.random() >= carelessness:
            return expert(prompt)
        return Reply(AIMLESS, str(random.randrange(len(prompt.observation.moves)) + 1))

    return play
