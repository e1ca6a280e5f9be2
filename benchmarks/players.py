"""How often players without a model have success in OpenSpiel's games, on training ids that no stage draws first.

    python -m benchmarks.players --episodes 200 --seats random mcts-10
    python -m benchmarks.players --games tic_tac_toe "connect_four 4x5"

`random` draws a number of the menu, `idle` types what is not legal, `first` and `last` choose by place alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count, islice
from random import Random

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.players import expert
from castaway.envs.openspiel.tables import Table, tables_named
from castaway.metrics.markdown import table
from castaway.tasks.environment import Prompt

FIRST_ID = 900_000_000

Player = Callable[[Prompt, Random], str]
PLAYERS: dict[str, Player] = {
    "random": lambda prompt, random: str(random.randrange(len(prompt.observation.moves)) + 1),
    "idle": lambda prompt, random: "",
    "first": lambda prompt, random: "1",
    "last": lambda prompt, random: str(len(prompt.observation.moves)),
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
    """A row a game and variant, a column a player and opponent."""
    rows = []
    for chosen in tables_named(games).tables:
        ids = ids_of(chosen, episodes)
        game = GAMES[chosen[0]]
        cells = [f"{100 * success(ids, seat, player):.0f}" for seat in seats for player in PLAYERS.values()]
        rows.append([f"{game.name} {game.variants[chosen[1]].name}", *cells])
    header = ["% success of", *(f"{name}, {seat}" for seat in seats for name in PLAYERS)]
    return f"{episodes} episodes a cell.\n\n{table(header, rows)}"


def ids_of(chosen: Table, episodes: int) -> list[int]:
    """Training ids of a table."""
    found = (number for number in count(FIRST_ID) if (episode_of(number).game, episode_of(number).variant) == chosen)
    return list(islice(found, episodes))


def success(ids: list[int], seat: str, player: Player) -> float:
    """The share of the episodes that a player has success in."""
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
