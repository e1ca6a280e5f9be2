"""Twenty games of OpenSpiel as a task: a player who looks ahead, a curriculum of opponents, and how far it leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from castaway.envs.openspiel.comparison import CEILING, FLOOR, comparison
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.pairs import preference_pairs
from castaway.envs.openspiel.params import OpenSpielParams
from castaway.envs.openspiel.players import demonstrator, expert
from castaway.envs.openspiel.practice import AIMLESS, practice
from castaway.envs.openspiel.slips import slip
from castaway.envs.openspiel.tables import tables_named
from castaway.tasks.environment import CurriculumStage, Played, Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow, Player, Task


class OpenSpiel(Task[OpenSpielParams]):
    """One player in many games, against the opponents that a seat is named after."""

    name = "openspiel"
    game_model = OpenSpielParams
    evaluation_seats = ("random", "mcts-10", "mcts-50")
    aimless = AIMLESS

    def make(self) -> OpenSpielEnvironment:
        """A table with every opponent of evaluation and training."""
        trained = [name for stage in self.game.stages.values() for name in stage.opponents]
        return OpenSpielEnvironment(tuple(dict.fromkeys([*self.evaluation_seats, *trained])), self.game.rendering)

    def expert(self, prompt: Prompt) -> Reply:
        """The move that a look ahead finds best."""
        return expert(prompt)

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An ordinary player: any move will do in a share of its turns."""
        return demonstrator(random, carelessness)

    def training_ids(self) -> Sequence[int]:
        """Those of the games of all stages.

        Raises:
            CastawayError: a stage names a game or variant that there is not.
        """
        return tables_named(name for stage in self.game.stages.values() for name in stage.games)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """The stages of the game section.

        Raises:
            CastawayError: a stage names a game or variant that there is not.
        """
        return tuple(
            CurriculumStage(
                name,
                tables_named(stage.games),
                tuple(stage.opponents),
                threshold=stage.threshold,
                floor=stage.floor,
                window=stage.window,
            )
            for name, stage in self.game.stages.items()
        )

    def kind_of(self, task_id: int) -> str:
        """The game of a task id."""
        return episode_of(task_id).played.name

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Other moves, with what speaks for each."""
        return practice(observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """The move by name or in words, and what goes wrong in any game."""
        return slip(reply, random)

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        """A good move against a bad one in the same position."""
        return preference_pairs(prompts, count, random)

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """How much of the gap between a random player and a long search each policy closes, in all and game by game."""
        environment, others = self.make(), dict[str, Sequence[Played]]()
        for name in (FLOOR, CEILING):
            rows = []
            for one in next(iter(played.values())):
                environment.reset(one.task_id, one.seat)
                rows.append(environment.play_out(name))
            others[name] = rows
        return comparison({**played, **others}, self.evaluation_seats[0])
