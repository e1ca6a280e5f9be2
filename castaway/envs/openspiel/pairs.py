"""Preference pairs by the value of moves, balanced so that no reply is better without its situation.

Two situations of one game are used if the best move of each is also in the other's menu, and clearly worse there than
the other's best move. They give two pairs, so every reply is chosen as often as it is rejected, and a reward model has
to read the situation.

In games with perfect information the value of a move comes from a tree search. In other games a search would use what
the player cannot know, so the values are those of the expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

import pyspiel

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.games import load_variant
from castaway.envs.openspiel.naming import typed
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.opponents import EXPLORATION, MEMORY_IN_MEGABYTES
from castaway.envs.openspiel.players import with_move
from castaway.envs.openspiel.tactics import position
from castaway.tasks.environment import Message, Prompt

Row = tuple[tuple[Message, ...], str, str]
"""A preference pair: the messages of a prompt, the preferred reply, the rejected reply."""
SIMULATIONS = 200
"""Number of simulations of the search in one situation."""
CLEAR = 0.3
"""Smallest difference in value that counts as clearly worse; a lost game is 0, a won one 1."""
PLAIN_SHARE = 0.25
"""Share of the pairs in which both replies have a reasoning without content."""
TRIES = 40
"""Number of attempts to find two situations that fit; after that a game gets fewer pairs."""


def preference_pairs(prompts: Sequence[Prompt], count: int, random: Random) -> list[Row]:
    """At most `count` pairs for these prompts, about the same number for each variant of each game."""
    by_variant: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        if len(prompt.observation.moves) > 1:
            by_variant.setdefault((prompt.observation.game.name, prompt.observation.variant), []).append(prompt)
    groups, rows = list(by_variant.values()), list[Row]()
    for number in range(count):
        found = groups[number % len(groups)]
        for _ in range(TRIES):
            if len(rows) >= count - 1:
                return rows
            if two := _two_pairs(random.choice(found), random.choice(found), random.random() < PLAIN_SHARE):
                rows += two
                break
    return rows


def _two_pairs(one: Prompt, other: Prompt, plain: bool) -> list[Row]:
    """The two pairs of two situations, or none if the situations do not fit."""
    first, second = best(one.observation), best(other.observation)
    here, there = typed(one.observation)[first], typed(other.observation)[second]
    if not (_worse(one.observation, there) and _worse(other.observation, here)):
        return []
    mine = str(with_move(one.observation, first, plain))
    theirs = str(with_move(other.observation, second, plain))
    return [(one.messages, mine, theirs), (other.messages, theirs, mine)]


def _worse(observation: Observation, action: str) -> bool:
    """Whether the action is in the menu, and clearly worse there than the best one."""
    worths, legal = values(observation), typed(observation)
    return action in legal and max(worths) - worths[legal.index(action)] >= CLEAR


def best(observation: Observation) -> int:
    """The position in the menu, from 0, of the most valuable move."""
    worths = values(observation)
    return worths.index(max(worths))


def values(observation: Observation) -> tuple[float, ...]:
    """The value of each move of the menu, from 0 to 1."""
    if observation.game.open:
        return _searched(GAMES.index(observation.game), observation.variant, observation.history)
    worths = [move_value.worth for move_value in move_values(observation)]
    span = max(worths) - min(worths)
    return tuple((worth - min(worths)) / span if span else 0.5 for worth in worths)


@lru_cache(maxsize=2**14)
def _searched(game: int, variant: int, history: tuple[int, ...]) -> tuple[float, ...]:
    """The mean result of the search's simulations of each legal move; a move never tried gets the worst mean."""
    loaded, state = load_variant(GAMES[game], variant), position(GAMES[game].name, variant, history)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(loaded, evaluator, EXPLORATION, SIMULATIONS, MEMORY_IN_MEGABYTES, False, 0, False)
    root = bot.mcts_search(state)
    means = {child.action: child.total_reward / child.explore_count for child in root.children if child.explore_count}
    worst = min(means.values())
    return tuple((1 + means.get(action, worst)) / 2 for action in state.legal_actions())
