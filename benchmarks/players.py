"""Measures the success rates of players without a model in OpenSpiel's games, on training ids.

    python -m benchmarks.players --episodes 200 --seats random mcts-10
    python -m benchmarks.players --games tic_tac_toe "connect_four 4x5"

`random` chooses a random move, `idle` gives no legal action, `first` and `last` choose by position in the menu.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count, islice
from random import Random

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.naming import typed
from castaway.envs.openspiel.players import expert
from castaway.envs.openspiel.tables import Table, tables_named
from castaway.metrics.markdown import table
from castaway.tasks.environment import Prompt

FIRST_ID = 900_000_000
"""The first training id, far from those that the stages use first."""

Player = Callable[[Prompt, Random], str]
PLAYERS: dict[str, Player] = {
    "random": lambda prompt, random: random.choice(typed(prompt.observation)),
    "idle": lambda prompt, random: "",
    "first": lambda prompt, random: typed(prompt.observation)[0],
    "last": lambda prompt, random: typed(prompt.observation)[-1],
    "expert": lambda prompt, random: expert(prompt).action,
}


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.players", description="Success of players without a model.")
    top.add_argument("--episodes", type=int, default=200)
    top.add_argument("--seats", nargs="+", default=["random", "mcts-10"])
    top.add_argument("--games", nargs="+", default=[game.name for game in GAMES])
    asked = top.parse_args()
    print(players_table(asked.games, asked.seats, asked.episodes))


def players_table(games: list[str], seats: list[str], episodes: int) -> str:
    """A Markdown table of success rates in percent: one row per game and variant, one column per player and seat."""
    rows = []
    for chosen in tables_named(games).tables:
        ids = ids_of(chosen, episodes)
        game = GAMES[chosen[0]]
        cells = [f"{100 * success(ids, seat, player):.0f}" for seat in seats for player in PLAYERS.values()]
        rows.append([f"{game.name} {game.variants[chosen[1]].name}", *cells])
    header = ["% success of", *(f"{name}, {seat}" for seat in seats for name in PLAYERS)]
    return f"{episodes} episodes a cell.\n\n{table(header, rows)}"


def ids_of(chosen: Table, episodes: int) -> list[int]:
    """The first `episodes` training ids, from `FIRST_ID` on, of a game and variant."""
    found = (number for number in count(FIRST_ID) if (episode_of(number).game, episode_of(number).variant) == chosen)
    return list(islice(found, episodes))


def success(ids: list[int], seat: str, player: Player) -> float:
    """The success rate of a player, from 0 to 1."""
    environment, won = OpenSpielEnvironment([seat]), 0
    for task_id in ids:
        random = Random(task_id)
        environment.reset(task_id, seat)
        while not environment.done:
            (prompt,) = environment.prompts()
            environment.step({prompt.agent: player(prompt, random)})
        won += environment.outcome().success
    return won / len(ids)


if __name__ == "__main__":
    main()
