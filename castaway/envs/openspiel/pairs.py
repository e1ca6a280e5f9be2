"""Preference pairs by the value of moves: for the one situation this answer is better, for another one that.

Two situations of one game, each with the best answer of its own, are taken if each answer is a move of the other's menu
too, and there clearly worse than that one's own. They give two pairs, so that every answer stands as often among the
chosen as among the rejected, and only who reads the situation can tell.

Where nothing is hidden a move is worth what a tree search from there makes of it. A search of a hidden state would
judge by what the player cannot know: in those games what counts is how the expert values the moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

import pyspiel

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.games import load_variant
from castaway.envs.openspiel.menu import MenuRules
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.opponents import EXPLORATION, MEMORY_IN_MEGABYTES
from castaway.envs.openspiel.practice import AIMLESS
from castaway.envs.openspiel.tactics import position
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply

Row = tuple[tuple[Message, ...], str, str]
"""A prompt's messages, the answer to prefer, the other one."""
SIMULATIONS = 200
CLEAR = 0.3
"""How much worse a move is clearly worse, where a lost game is 0 and a won one 1."""
PLAIN_SHARE = 0.25
"""Of the pairs, in which neither answer says why."""
TRIES = 40
"""For two pairs; games in which hardly two situations fit together have fewer."""


def preference_pairs(prompts: Sequence[Prompt], count: int, random: Random) -> list[Row]:
    """At most `count` pairs for these prompts, of each game about as many as of the others."""
    tables: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        if len(prompt.observation.moves) > 1:
            tables.setdefault((prompt.observation.game.name, prompt.observation.variant), []).append(prompt)
    kinds, rows = list(tables.values()), list[Row]()
    for number in range(count):
        found = kinds[number % len(kinds)]
        for _ in range(TRIES):
            if len(rows) >= count - 1:
                return rows
            if two := _two_pairs(random.choice(found), random.choice(found), random.random() < PLAIN_SHARE):
                rows += two
                break
    return rows


def _two_pairs(one: Prompt, other: Prompt, plain: bool) -> list[Row]:
    """Both pairs of two situations, or none if they do not fit together."""
    first, second = best(one.observation), best(other.observation)
    if not (_worse(one.observation, second) and _worse(other.observation, first)):
        return []
    here, there = _answer(one.observation, first, plain), _answer(other.observation, second, plain)
    return [(one.messages, here, there), (other.messages, there, here)]


def _answer(observation: Observation, at: int, plain: bool) -> str:
    action = str(at + 1)
    return str(Reply(AIMLESS if plain else MenuRules().reason(observation, action), action))


def _worse(observation: Observation, at: int) -> bool:
    """Whether the menu has such a place, and the move there is clearly worse than the best one."""
    worths = values(observation)
    return at < len(worths) and max(worths) - worths[at] >= CLEAR


def best(observation: Observation) -> int:
    """The place in the menu, from 0, of the most valuable move."""
    worths = values(observation)
    return worths.index(max(worths))


def values(observation: Observation) -> tuple[float, ...]:
    """What each move of the menu is worth, from 0 to 1."""
    if observation.game.open:
        return _searched(GAMES.index(observation.game), observation.variant, observation.history)
    worths = [move_value.worth for move_value in move_values(observation)]
    span = max(worths) - min(worths)
    return tuple((worth - min(worths)) / span if span else 0.5 for worth in worths)


@lru_cache(maxsize=2**14)
def _searched(game: int, variant: int, history: tuple[int, ...]) -> tuple[float, ...]:
    """The mean result of a search's simulations of each move; of one that was never tried, the worst of the others."""
    loaded, state = load_variant(GAMES[game], variant), position(GAMES[game].name, variant, history)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(loaded, evaluator, EXPLORATION, SIMULATIONS, MEMORY_IN_MEGABYTES, False, 0, False)
    root = bot.mcts_search(state)
    means = {child.action: child.total_reward / child.explore_count for child in root.children if child.explore_count}
    worst = min(means.values())
    return tuple((1 + means.get(action, worst)) / 2 for action in state.legal_actions())
