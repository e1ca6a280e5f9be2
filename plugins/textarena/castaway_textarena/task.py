"""A game of TextArena as a task: its players, its curriculum, and the comparison with players that are not trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from statistics import mean
from typing import Any

from castaway.tasks import Task
from castaway.tasks.environment import SELF_PLAY, CurriculumStage, Outcome, Played, Prompt
from castaway.tasks.intervals import clustered_mean, proportion
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player
from castaway_textarena.environment import PLAYER, TABLE, Others, TextArenaEnvironment
from castaway_textarena.observation import Observation
from castaway_textarena.params import TextArenaParams
from castaway_textarena.players import best_move, random_player
from castaway_textarena.rules import TextArenaRules
from castaway_textarena.served import served_player

FLOOR: Others = "random"
CEILING: Others = "search"


class TextArena(Task[TextArenaParams]):
    """One game with one trained player."""

    name = "textarena"
    game_model = TextArenaParams
    evaluation_seats = (TABLE,)

    @cached_property
    def _rules(self) -> TextArenaRules:
        return TextArenaRules()

    def make(self) -> TextArenaEnvironment:
        """A new environment of the game.

        Raises:
            CastawayError: the game cannot be played here.
        """
        game = self.game
        return TextArenaEnvironment(game.game, game.players, game.rendering, game.others, game.turns, game.search_depth)

    def expert(self, prompt: Prompt) -> Reply:
        """The reply with the best move that a search finds, or that is known."""
        return self._with(prompt.observation, best_move(prompt.observation, self.game.search_depth))

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """A random legal move in the share `random_action_rate` of the turns, otherwise the demonstrator's."""
        careless = random_player(random)
        served = served_player(self.game.served) if self.game.demonstrator == "served" else None

        def play(prompt: Prompt) -> Reply:
            seen: Observation = prompt.observation
            if self.game.demonstrator == "random" or random.random() < random_action_rate:
                return self._with(seen, careless(seen))
            return self._with(seen, served(prompt)) if served else self.expert(prompt)

        return play

    def _with(self, seen: Observation, move: str) -> Reply:
        return Reply(self._rules.reason(seen, move), move)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """One stage: at the table, or against earlier policies."""
        seat = SELF_PLAY if self.game.self_play else TABLE
        return (CurriculumStage(seat, self.training_ids(), (seat,)),)

    def practice(self, observation: Observation, random: Random, count: int) -> list[Reply]:
        """Replies with other legal moves."""
        moves = random.sample(observation.legal, min(count, len(observation.legal)))
        return [self._with(observation, move) for move in moves]

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """The mean reward of TextArena with its interval, and how many moves it called invalid, by episode."""
        rewards = clustered_mean([[one.details["reward"]] for one in outcomes])
        invalid = mean(one.details["invalid_moves"] for one in outcomes)
        return {**rewards.entries("mean_reward"), "invalid_moves": round(invalid, 6)}

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """The figures of a random player and of the search on the same episodes."""
        # Every policy played the same episodes, so those of the first one are repeated.
        environment, episodes = self.make(), next(iter(played.values()))
        figures: dict[str, Any] = {}
        for kind in (FLOOR, CEILING):
            rows = []
            for one in episodes:
                environment.reset(one.task_id, one.seat)
                rows.append(environment.play_out(kind))
            won = sum(row.outcome.success for row in rows)
            rewards = clustered_mean([[row.outcome.details["reward"]] for row in rows])
            figures[kind] = {
                "episodes": len(rows),
                "turns": sum(row.turns for row in rows),
                **proportion(won, len(rows)).entries("success_rate"),
                **rewards.entries("mean_return"),
                **rewards.entries("mean_reward"),
            }
        return figures


__all__ = ["PLAYER", "TextArena", "TextArenaParams"]
