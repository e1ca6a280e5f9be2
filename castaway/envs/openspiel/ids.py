"""Encodes an episode as a task id: game, variant, seat, seed of chance and seed of the opponents.

An id is a split and nine decimal digits: `id = split * 1_000_000_000 + digits`. Split 0 is for training; all other
splits are held out (`HELD_OUT_START`). The digits are a number in mixed radix, here from the lowest place:

| place | radix |
|---|---|
| game | 20; its position in the catalogue |
| variant | the number of the game's variants |
| seat | the number of the variant's seats |
| seed of chance | 10,000 |
| seed of the opponents | the rest, at least 555 |

So consecutive ids go through all games, then through their variants and seats, then through 10,000 seeds of chance, and
then through the same seeds of chance with other seeds of the opponents. Every id of 0 or more is exactly one episode.
The split is part of every random seed, so held-out and training ids never share a random stream. In a very small game,
such as Kuhn poker with its six deals, the same deals occur all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import Game, player_count
from castaway.tasks.environment import HELD_OUT_START

CHANCE_SEEDS = 10_000
"""Number of seeds of chance."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The parts of a task id; all are numbers from 0."""

    game: int
    variant: int
    seat: int
    chance: int
    """The seed of chance."""
    opponent: int
    """The seed of the opponents."""
    split: int = 0
    """0 for training, otherwise held out."""

    @property
    def played(self) -> Game:
        """The description of the game."""
        return GAMES[self.game]

    @property
    def chance_seed(self) -> str:
        """The random seed of deals and dice; it does not depend on the seat or the opponents."""
        return f"chance {self.split} {self.game} {self.variant} {self.chance}"

    @property
    def opponent_seed(self) -> str:
        """The random seed of the opponents; different for each id."""
        return f"opponent {task_id_of(self)}"


def episode_of(task_id: int) -> Episode:
    """The episode of a task id.

    Raises:
        ValueError: the id is negative.
    """
    if task_id < 0:
        raise ValueError(f"there is no episode {task_id}: task ids begin at 0")
    split, rest = divmod(task_id, HELD_OUT_START)
    rest, game = divmod(rest, len(GAMES))
    rest, variant = divmod(rest, len(GAMES[game].variants))
    rest, seat = divmod(rest, player_count(GAMES[game], variant))
    opponent, chance = divmod(rest, CHANCE_SEEDS)
    return Episode(game, variant, seat, chance, opponent, split)


def task_id_of(episode: Episode) -> int:
    """The task id of an episode.

    Raises:
        ValueError: a part is out of its range.
    """
    _demand_range("game", episode.game, len(GAMES))
    variants = len(episode.played.variants)
    _demand_range("variant", episode.variant, variants)
    seats = player_count(episode.played, episode.variant)
    _demand_range("seat", episode.seat, seats)
    _demand_range("seed of chance", episode.chance, CHANCE_SEEDS)
    digits = episode.opponent * CHANCE_SEEDS + episode.chance
    digits = (digits * seats + episode.seat) * variants + episode.variant
    digits = digits * len(GAMES) + episode.game
    if episode.opponent < 0 or episode.split < 0 or digits >= HELD_OUT_START:
        raise ValueError(f"no task id has the opponents' seed {episode.opponent} in the split {episode.split}")
    return episode.split * HELD_OUT_START + digits


def _demand_range(what: str, value: int, size: int) -> None:
    if not 0 <= value < size:
        raise ValueError(f"there is no {what} {value}: it is a number from 0 to {size - 1}")


def explained(episode: Episode) -> str:
    """A description of an episode for people, one line for each part."""
    game = episode.played
    variant = game.variants[episode.variant]
    seats = player_count(game, episode.variant)
    held_out = f"held out (split {episode.split})" if episode.split else "training (split 0)"
    lines = {
        "task id": f"{task_id_of(episode)}, {held_out}",
        "game": f"{game.name} ({episode.game}): {game.line}",
        "variant": f"{variant.name} ({episode.variant})",
        "parameters": ", ".join(f"{name}={value}" for name, value in variant.parameters.items()) or "the game's own",
        "seat": f"{game.side(episode.seat)} ({episode.seat} of {seats}, counted from 0)",
        "chance": f"seed {episode.chance}",
        "opponents": f"seed {episode.opponent}; the seat of the episode sets their kind: random, mcts-N or self",
        "base rate": f"{100 * variant.base_rate:.1f} % success for a random player among random ones",
    }
    return "\n".join(f"{name + ':':12}{text}" for name, text in lines.items())
