"""The task ids of selected games, which a curriculum stage draws from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import player_count
from castaway.envs.openspiel.ids import CHANCE_SEEDS, Episode, episode_of, task_id_of
from castaway.errors import CastawayError

Table = tuple[int, int]
"""A game and one of its variants, by number."""
EPISODES = 500 * CHANCE_SEEDS
"""Number of ids that are used of each table; every table has more."""


class Tables(Sequence[int]):
    """The training ids of some tables, as a sequence that computes its ids when asked, like a `range`.

    Consecutive ids go through the tables first, then through seats, seeds of chance and seeds of the opponents.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        """Make the sequence of the ids of `tables`; duplicates are removed."""
        self.tables = tuple(dict.fromkeys(tables))

    def __len__(self) -> int:
        return EPISODES * len(self.tables)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        rest, at = divmod(range(len(self))[place], len(self.tables))
        game, variant = self.tables[at]
        rest, seat = divmod(rest, player_count(GAMES[game], variant))
        opponent, chance = divmod(rest, CHANCE_SEEDS)
        return task_id_of(Episode(game, variant, seat, chance, opponent))

    def __contains__(self, task_id: object) -> bool:
        if not isinstance(task_id, int) or task_id < 0:
            return False
        episode = episode_of(task_id)
        seats = player_count(episode.played, episode.variant)
        number = (episode.opponent * CHANCE_SEEDS + episode.chance) * seats + episode.seat
        return episode.split == 0 and (episode.game, episode.variant) in self.tables and number < EPISODES


def tables_named(names: Iterable[str]) -> Tables:
    """The ids of games by name: `GAME VARIANT`, or `GAME` for all its variants.

    Raises:
        CastawayError: there is no such game or variant.
    """
    return Tables([table for name in names for table in _named(name)])


def _named(name: str) -> list[Table]:
    wanted, _, variant = name.partition(" ")
    for number, game in enumerate(GAMES):
        names = [one.name for one in game.variants]
        if game.name == wanted and not variant:
            return [(number, place) for place in range(len(names))]
        if game.name == wanted and variant in names:
            return [(number, names.index(variant))]
        if game.name == wanted:
            raise CastawayError(f"{wanted} has no variant {variant!r}, expected one of {', '.join(names)}")
    raise CastawayError(f"there is no game {wanted!r}, expected one of {', '.join(game.name for game in GAMES)}")
