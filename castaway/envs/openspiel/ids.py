"""Encodes an episode as a task id: game, variant, seat, seed of chance and seed of the opponents.

An id is a split and nine decimal digits: `id = split * 1_000_000_000 + digits`. Split 0 is for training; all others are
held out (`HELD_OUT_START`). The digits are a number in mixed radix, from the lowest place: game (20, by its position in
the catalogue), variant, seat, seed of chance (10,000), seed of the opponents (the rest, at least 500).

Each game after the twentieth has a block of its own, `BLOCK` ids without the place for the game: the first of them the
last block of the nine digits, the next one the block before. So a further game changes no id that a stage may draw.

Every id of 0 or more is exactly one episode, and consecutive ids go through the twenty games first. The split is part
of every random seed, so held-out and training ids never share a random stream. In a very small game, such as Kuhn poker
with its six deals, the same deals occur all the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from castaway.config.errors import CastawayError
from castaway.envs.openspiel.games import GAMES, Game, player_count
from castaway.tasks.environment import HELD_OUT_START

TOGETHER = 20  # the first games of the catalogue, whose ids take turns
BLOCK = 100_000_000  # number of ids of each further game
CHANCE_SEEDS = 10_000
Table = tuple[int, int]  # a game and one of its variants, by number
EPISODES = 500 * CHANCE_SEEDS  # number of ids that are used of each table; every table has more


@dataclass(frozen=True, slots=True)
class Episode:
    """The parts of a task id; all are numbers from 0."""

    game: int
    variant: int
    seat: int
    chance: int  # the seed of chance
    opponent: int  # the seed of the opponents
    split: int = 0  # 0 for training, otherwise held out

    @property
    def played(self) -> Game:
        return GAMES[self.game]

    @property
    def seats(self) -> int:
        return player_count(self.played, self.variant)

    @property
    def chance_seed(self) -> str:
        """The random seed of deals and dice; it does not depend on the seat or the opponents."""
        return f"chance {self.split} {self.game} {self.variant} {self.chance}"

    @property
    def opponent_seed(self) -> str:
        """The random seed of the opponents; different for each id."""
        return f"opponent {task_id_of(self)}"


def episode_of(task_id: int) -> Episode:
    if task_id < 0:
        raise ValueError(f"there is no episode {task_id}: task ids begin at 0")
    split, rest = divmod(task_id, HELD_OUT_START)
    further = TOGETHER + (HELD_OUT_START - 1 - rest) // BLOCK
    rest, game = (rest % BLOCK, further) if further < len(GAMES) else divmod(rest, TOGETHER)
    rest, variant = divmod(rest, len(GAMES[game].variants))
    rest, seat = divmod(rest, player_count(GAMES[game], variant))
    opponent, chance = divmod(rest, CHANCE_SEEDS)
    return Episode(game, variant, seat, chance, opponent, split)


def task_id_of(episode: Episode) -> int:
    """The id of an episode; ValueError if one of its parts is out of range."""
    digits = episode.opponent * CHANCE_SEEDS + episode.chance
    digits = (digits * episode.seats + episode.seat) * len(episode.played.variants) + episode.variant
    further = episode.game - TOGETHER
    place = digits * TOGETHER + episode.game if further < 0 else HELD_OUT_START - (further + 1) * BLOCK + digits
    task_id = episode.split * HELD_OUT_START + place
    if episode_of(task_id) != episode:
        raise ValueError(f"no task id stands for {episode}")
    return task_id


def describe(episode: Episode) -> str:
    game, variant = episode.played, episode.played.variants[episode.variant]
    held_out = f"held out (split {episode.split})" if episode.split else "training (split 0)"
    lines = {
        "task id": f"{task_id_of(episode)}, {held_out}",
        "game": f"{game.name} ({episode.game}): {game.line}",
        "variant": f"{variant.name} ({episode.variant})",
        "parameters": ", ".join(f"{name}={value}" for name, value in variant.parameters.items()) or "the game's own",
        "seat": f"{game.side(episode.seat)} ({episode.seat} of {episode.seats}, counted from 0)",
        "chance": f"seed {episode.chance}",
        "opponents": f"seed {episode.opponent}; the seat of the episode sets their kind: random, mcts-N or self",
        "base rate": f"{100 * variant.base_rate:.1f} % success for a random player among random ones",
    }
    return "\n".join(f"{name + ':':12}{text}" for name, text in lines.items())


class Tables(Sequence[int]):
    """The training ids of some tables, computed when asked; consecutive ids go through the tables first."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tuple(dict.fromkeys(tables))

    def __len__(self) -> int:
        return EPISODES * len(self.tables)

    def __getitem__(self, place: Any) -> Any:
        """The id at a place, or the list of those of a slice."""
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
        number = (episode.opponent * CHANCE_SEEDS + episode.chance) * episode.seats + episode.seat
        return episode.split == 0 and (episode.game, episode.variant) in self.tables and number < EPISODES


def tables_named(names: Iterable[str]) -> Tables:
    """The ids of games by name: `GAME VARIANT`, or `GAME` for all its variants; CastawayError without such a one."""
    return Tables([table for name in names for table in _named(name)])


def _named(name: str) -> list[Table]:
    wanted, _, variant = name.partition(" ")
    number = next((number for number, game in enumerate(GAMES) if game.name == wanted), None)
    if number is None:
        raise CastawayError(f"there is no game {wanted!r}, expected one of {', '.join(game.name for game in GAMES)}")
    names = [one.name for one in GAMES[number].variants]
    if variant and variant not in names:
        raise CastawayError(f"{wanted} has no variant {variant!r}, expected one of {', '.join(names)}")
    return [(number, place) for place, called in enumerate(names) if variant in ("", called)]
