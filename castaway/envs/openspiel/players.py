"""The expert and the demonstrator of the games, which turn a prompt into a reply."""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.expert import best_move, move_values
from castaway.envs.openspiel.menu import BY_LOT
from castaway.envs.openspiel.naming import typed
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.reasons import AIMLESS, reasons, worded
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """The reply with the best move by `castaway.envs.openspiel.expert`."""
    return with_move(prompt.observation, best_move(prompt.observation))


def shortfall(observation: Observation, action: str) -> float:
    """The share of the other moves that are worth more by `castaway.envs.openspiel.expert`; 1 if it is drawn by lot."""
    if action == BY_LOT:
        return 1.0
    worths = [move_value.worth for move_value in move_values(observation)]
    own = worths[typed(observation).index(action)]
    return sum(worth > own for worth in worths) / max(1, len(worths) - 1)


def with_move(observation: Observation, at: int, plain: bool = False) -> Reply:
    """The reply with the move in position `at` of the menu, from 0; `plain` for a reason without content."""
    why = worded(observation, AIMLESS) if plain else reasons(observation)[at]
    return Reply(why, typed(observation)[at])


def demonstrator(random: Random, carelessness: float) -> Player:
    """An imperfect player: a random move in the share `carelessness` of its turns, otherwise the expert's."""

    def play(prompt: Prompt) -> Reply:
        if random.random() >= carelessness:
            return expert(prompt)
        return with_move(prompt.observation, random.randrange(len(prompt.observation.moves)), plain=True)

    return play
