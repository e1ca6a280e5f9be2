"""The task ids of some games: what a stage of the curriculum draws from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import player_count
from castaway.envs.openspiel.ids import CHANCE_SEEDS, Episode, episode_of, task_id_of
from castaway.errors import CastawayError

Table = tuple[int, int]
"""A game and a variant, by number."""
EPISODES = 500 * CHANCE_SEEDS
"""So many ids of each table are taken: any table has more."""


class Tables(Sequence[int]):
    """Training ids of some tables. Neighbours go through the tables, then through the seats, the deals, the opponents.

    Like a `range` it holds no ids, however many it has.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        """The ids of `tables`, of which none is taken twice."""
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
    """The tables of `GAME VARIANT`, or of `GAME` with all its variants.

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
