"""Games of OpenSpiel as a task: players, curriculum, preference pairs, and comparison with a tree search."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from castaway.config.errors import CastawayError
from castaway.config.section import Fraction, PositiveInteger, Section
from castaway.envs.openspiel import players
from castaway.envs.openspiel.comparison import CEILING, comparison
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.exploitability import TIMES, Answers, of_answers
from castaway.envs.openspiel.games import GAMES
from castaway.envs.openspiel.ids import Tables, episode_of, tables_named
from castaway.tasks.environment import CurriculumStage, Played, Prompt
from castaway.tasks.task import Task


def joined(names: Any) -> Any:
    """The names with those of lists among them: YAML can name a list again, but not lengthen it."""
    if not isinstance(names, list):
        return names
    return [name for one in names for name in (joined(one) if isinstance(one, list) else [one])]


class OpenSpielStageParams(Section):
    """A curriculum stage of the `openspiel` task."""

    games: Annotated[list[str], BeforeValidator(joined), Field(min_length=1)]
    """Games: with one variant, such as `connect_four 4x5`, or with all variants, such as `connect_four`. A list in the
    list, such as the alias of an earlier stage's, is joined with the others."""
    opponents: Annotated[list[str], Field(min_length=1)]
    """The opponents, in rotation: `random`; `mcts-N`, a tree search with N simulations per move; or `self`, an earlier
    version of the policy (`ppo.self_play`)."""
    threshold: Fraction
    """Success rate from which on the next stage is played."""
    floor: Fraction
    """Success rate below which the previous stage is played again."""
    window: PositiveInteger
    """Number of most recent episodes that the success rate is taken over."""

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        _require_games("games", self.games)
        for name in self.opponents:
            if not re.fullmatch(r"random|self|mcts-([2-9]|[1-9]\d+)", name):
                raise ValueError(f"opponents is {name!r}, expected random, self, or mcts-N with 2 simulations or more")
        if self.floor > self.threshold:
            raise ValueError(f"floor is {self.floor}, expected at most the threshold ({self.threshold})")
        return self


class OpenSpielParams(Section):
    """Rendering and curriculum of the `openspiel` task: three stages, which follow one another by success rate."""

    rendering: Literal["full", "compact", "assisted"]
    """`full`: rules, boards as people draw them, moves by name; `compact`: few words; `assisted`: and threats."""
    easy: OpenSpielStageParams
    medium: OpenSpielStageParams
    hard: OpenSpielStageParams
    unseen: list[str] = Field(default=[])
    """Games or variants, named as in `games`, that no stage plays: for evaluation alone, against random opponents."""

    @model_validator(mode="after")
    def _unseen_games(self) -> Self:
        _require_games("unseen", self.unseen)
        return self

    @property
    def stages(self) -> dict[str, OpenSpielStageParams]:
        return {"easy": self.easy, "medium": self.medium, "hard": self.hard}


def _require_games(key: str, names: list[str]) -> None:
    try:
        tables_named(names)
    except CastawayError as error:
        raise ValueError(f"{key} is wrong: {error}") from None


class OpenSpiel(Task[OpenSpielParams]):
    name = "openspiel"
    game_model = OpenSpielParams
    evaluation_seats = ("random", "mcts-10", "mcts-50")
    aimless = players.AIMLESS

    def make(self) -> OpenSpielEnvironment:
        trained = [name for stage in self.game.stages.values() for name in stage.opponents]
        return OpenSpielEnvironment(tuple(dict.fromkeys([*self.evaluation_seats, *trained])), self.game.rendering)

    expert = staticmethod(players.expert)
    demonstrator = staticmethod(players.demonstrator)
    shortfall = staticmethod(players.shortfall)
    practice = staticmethod(players.extra_replies)
    slip = staticmethod(players.format_error)
    preference_pairs = staticmethod(players.preference_pairs)

    def training_ids(self) -> Tables:
        return tables_named(name for stage in self.game.stages.values() for name in stage.games)

    def unseen_ids(self) -> Sequence[int]:
        """The ids of the variants that `game.unseen` names; CastawayError if a stage plays one of them."""
        unseen, trained = tables_named(self.game.unseen), self.training_ids()
        if both := [GAMES[game] for game, variant in unseen.tables if (game, variant) in trained.tables]:
            raise CastawayError(f"game.unseen names a variant of {both[0].name} that a stage of the curriculum plays")
        return unseen

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        return tuple(
            CurriculumStage(
                name, tables_named(stage.games), tuple(stage.opponents), stage.threshold, stage.floor, stage.window
            )
            for name, stage in self.game.stages.items()
        )

    def situation(self, prompt: Prompt) -> str:
        """The game: long ones have many times the turns of short ones."""
        return prompt.observation.game.name

    def kind_of(self, task_id: int) -> str:
        return episode_of(task_id).played.name

    def examined(self, answers: Answers) -> dict[str, float]:
        """How much can be won from the policy (`exploitability_GAME`), in the trained games that are small enough."""
        trained = [(GAMES[game], variant) for game, variant in self.training_ids().tables]
        return {
            f"exploitability_{game.name}": round(of_answers(game, variant, answers, times, self.game.rendering), 6)
            for game, variant in trained
            if (times := TIMES.get((game.name, variant)))
        }

    def yardsticks(self) -> Mapping[str, Callable[[int, str], Played]]:
        """A long search, against which the gap is measured."""
        return {CEILING: partial(self.make().play_out, CEILING)}

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """The share of the gap between a random player and a long search that each policy closes: overall, per game."""
        return comparison(played, self.evaluation_seats[0])
