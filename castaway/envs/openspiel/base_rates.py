"""Computes base rates: how often a random player succeeds against random players.

`python -m castaway.envs.openspiel.base_rates` prints the figures that are written in the catalogue.
"""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import Game, load_variant

EPISODES = 2000
"""Number of episodes per variant."""


def random_returns(game: Game, variant: int, random: Random) -> list[float]:
    """The return of each seat in one episode with random players only."""
    state = load_variant(game, variant).new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            numbers, weights = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(random.choices(numbers, weights)[0])
        else:
            state.apply_action(random.choice(state.legal_actions()))
    return [float(amount) for amount in state.returns()]


def base_rate(game: Game, variant: int, episodes: int = EPISODES) -> float:
    """The success rate over `episodes` episodes, 0 to 1; each episode counts for one seat, in rotation."""
    random, won = Random(variant), 0
    for episode in range(episodes):
        returns = random_returns(game, variant, random)
        won += game.success(returns, episode % len(returns))
    return won / episodes


if __name__ == "__main__":
    for described in GAMES:
        for number, size in enumerate(described.variants):
            print(f"{described.name:15} {size.name:15} {base_rate(described, number):.3f}")
