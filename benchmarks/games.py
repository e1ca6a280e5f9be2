"""Measures turns per second of OpenSpiel's games with rendered prompts, and moves per second of the tree search.

A turn consists of the player's prompt, its random move, and the other players' moves up to its next turn. The tree
search is measured in the states of random games.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import mean
from time import perf_counter
from typing import Any

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import Game, load_variant, player_count
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.opponents import Search, make_opponent
from castaway.metrics.markdown import table

SEARCHES = (10, 50)
"""Numbers of simulations per move."""


def games_table(seconds: float) -> str:
    """A Markdown table with one row per game, in its smallest variant."""
    rows = []
    for game in GAMES:
        turns, spent, lengths = play(game, seconds)
        searches = [search(game, simulations, seconds) for simulations in SEARCHES]
        longest = f"{mean(lengths):.0f} / {max(lengths)}"
        cells = [f"{moves / taken:,.0f}" for moves, taken in searches]
        rows.append([f"{game.name}, {game.variants[0].name}", f"{turns / spent:,.0f}", longest, *cells])
    header = ["game", "turns/s", "prompt, characters (mean / longest)"]
    header += [f"moves/s of mcts-{simulations}" for simulations in SEARCHES]
    return "One process, one core; the others play at random.\n\n" + table(header, rows)


def play(game: Game, seconds: float) -> tuple[int, float, list[int]]:
    """Play until the environment alone has taken `seconds`.

    Returns:
        The number of turns, the seconds of the environment, and the length of each prompt in characters.
    """
    environment, random, lengths = OpenSpielEnvironment(), Random(0), []
    spent, number = 0.0, 0
    while spent < seconds:
        seat = number % player_count(game, 0)
        began = perf_counter()
        environment.reset(task_id_of(Episode(GAMES.index(game), 0, seat, number % 10_000, 0)), "random")
        spent += perf_counter() - began
        while not environment.done:
            began = perf_counter()
            (prompt,) = environment.prompts()
            spent += perf_counter() - began
            lengths.append(sum(len(message["content"]) for message in prompt.messages))
            typed = random.choice(environment.rules.legal_actions(prompt.observation))
            began = perf_counter()
            environment.step({"player": typed})
            spent += perf_counter() - began
        number += 1
    return len(lengths), spent, lengths


def search(game: Game, simulations: int, seconds: float) -> tuple[int, float]:
    """Search until it has taken `seconds`; returns the number of moves and the seconds of the search."""
    loaded, random = load_variant(game, 0), Random(0)
    opponent = make_opponent(Search(simulations), loaded, random)
    moves, spent = 0, 0.0
    while spent < seconds:
        for state in _random_game(loaded, random):
            began = perf_counter()
            opponent(state)
            spent += perf_counter() - began
            moves += 1
            if spent >= seconds:
                break
    return moves, spent


def _random_game(loaded: Any, random: Random) -> Iterator[Any]:
    """The states of a random game in which a player, and not chance, is to move."""
    state = loaded.new_initial_state()
    while not state.is_terminal():
        if not state.is_chance_node():
            yield state
        state.apply_action(random.choice(state.legal_actions()))
