"""Twenty games of OpenSpiel as a task: players, curriculum, preference pairs, and comparison with a tree search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.comparison import CEILING, FLOOR, comparison
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.pairs import preference_pairs
from castaway.envs.openspiel.params import OpenSpielParams
from castaway.envs.openspiel.players import demonstrator, expert, shortfall
from castaway.envs.openspiel.practice import practice
from castaway.envs.openspiel.reasons import AIMLESS
from castaway.envs.openspiel.slips import slip
from castaway.envs.openspiel.tables import tables_named
from castaway.errors import CastawayError
from castaway.tasks.environment import CurriculumStage, Played, Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow, Player, Task


class OpenSpiel(Task[OpenSpielParams]):
    """Many games with one player; the seat names its opponents."""

    name = "openspiel"
    game_model = OpenSpielParams
    evaluation_seats = ("random", "mcts-10", "mcts-50")
    aimless = AIMLESS

    def make(self) -> OpenSpielEnvironment:
        """A new environment with all opponents of evaluation and training as seats."""
        trained = [name for stage in self.game.stages.values() for name in stage.opponents]
        return OpenSpielEnvironment(tuple(dict.fromkeys([*self.evaluation_seats, *trained])), self.game.rendering)

    def expert(self, prompt: Prompt) -> Reply:
        """The reply with the best move by `castaway.envs.openspiel.expert`."""
        return expert(prompt)

    def shortfall(self, prompt: Prompt, action: str) -> float | None:
        """The share of the other moves that the expert holds to be better."""
        return shortfall(prompt.observation, action)

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An imperfect player: a random move in the share `carelessness` of its turns, otherwise the expert's."""
        return demonstrator(random, carelessness)

    def training_ids(self) -> Sequence[int]:
        """The training ids of the games of all curriculum stages.

        Raises:
            CastawayError: a stage names a game or variant that does not exist.
        """
        return tables_named(self._trained())

    def _trained(self) -> list[str]:
        return [name for stage in self.game.stages.values() for name in stage.games]

    def unseen_ids(self) -> Sequence[int]:
        """The ids of the variants that `game.unseen` names: boards of other sizes, for example.

        Raises:
            CastawayError: there is no such game or variant, or a stage plays it.
        """
        found, trained = tables_named(self.game.unseen), tables_named(self._trained())
        both = [GAMES[game] for game, variant in found.tables if (game, variant) in trained.tables]
        if both:
            raise CastawayError(f"game.unseen names a variant of {both[0].name} that a stage of the curriculum plays")
        return found

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """The curriculum stages of the `game` section.

        Raises:
            CastawayError: a stage names a game or variant that does not exist.
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
        """Replies with other moves, and the reason for each."""
        return practice(observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """The move by name or in words, and the format errors of all games."""
        return slip(reply, random)

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        """Pairs of a good and a clearly worse move in the same situation."""
        return preference_pairs(prompts, count, random)

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """The share of the gap between a random player and a long search that each policy closes: overall, per game."""
        # Every policy played the same episodes, so those of the first one are repeated.
        environment, others = self.make(), dict[str, Sequence[Played]]()
        for name in (name for name in (FLOOR, CEILING) if name not in played):
            rows = []
            for one in next(iter(played.values())):
                environment.reset(one.task_id, one.seat)
                rows.append(environment.play_out(name))
            others[name] = rows
        return comparison({**played, **others}, self.evaluation_seats[0])
