"""MAROONED as a task: players, seats, curriculum, and pretraining text for a tiny base model."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.imagination import imagined
from castaway.envs.marooned.params import MaroonedParams
from castaway.envs.marooned.players import demonstrator, expert
from castaway.envs.marooned.practice import practice
from castaway.envs.marooned.scripted import AIMLESS
from castaway.envs.marooned.slips import slip
from castaway.envs.marooned.words import in_words
from castaway.tasks.environment import CurriculumStage, Prompt, TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player, Task


class Marooned(Task[MaroonedParams]):
    """The game of five sailors, one of them a traitor."""

    name = "marooned"
    game_model = MaroonedParams
    evaluation_seats = ("crew", "traitor")
    scripted_seat = "all"
    aimless = AIMLESS
    makes_synthetic = True

    def make(self) -> MaroonedEnvironment:
        """A new environment for games of the scenario."""
        return MaroonedEnvironment(self.game.scenario, self.game.rendering)

    def expert(self, prompt: Prompt) -> Reply:
        """The reply of a competent player of the prompt's role."""
        return self._in_words(expert(prompt))

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An imperfect player of either role, aimless in the share `carelessness` of its turns."""
        play = demonstrator(random, carelessness)
        return lambda prompt: self._in_words(play(prompt))

    def _in_words(self, reply: Reply) -> Reply:
        """The reply in the words of the rendering."""
        return replace(reply, reasoning=in_words(reply.reasoning)) if self.game.rendering == "full" else reply

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """A single stage; in each step the first `traitor_share` of the episodes is played in the seat `traitor`."""
        traitors = round(episodes * self.game.traitor_share)
        return (
            CurriculumStage("all", self.training_ids(), ("traitor",) * traitors + ("crew",) * (episodes - traitors)),
        )

    def situation(self, prompt: Prompt) -> str:
        """The role, and whether it is a turn to vote in: one in seven is, and there is seldom reason to."""
        return f"{prompt.role} {'votes' if prompt.observation.phase.vote else 'works'}"

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Replies to the same situation with other aims."""
        return practice(observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """Invented verbs, lower case, missing spaces, and the format errors of all games."""
        return slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """The same sailor with another ship, store, load, energy and evidence."""
        assert isinstance(environment, MaroonedEnvironment)
        return environment.prompt_of(imagined(prompt.observation, random))
