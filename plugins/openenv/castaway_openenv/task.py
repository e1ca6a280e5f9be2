"""The task `openenv`: any OpenEnv server. Subclass it to give a game a name and an expert of its own."""

from __future__ import annotations

from random import Random
from typing import Any

from castaway.tasks import Task
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player

from castaway_openenv.environment import OpenEnvEnvironment, Seen
from castaway_openenv.params import OpenEnvParams
from castaway_openenv.server import Server

REASON = "any"
"""The reasoning of a player that has no reason."""


class OpenEnv(Task[OpenEnvParams]):
    """A game that somebody else wrote and serves."""

    name = "openenv"
    game_model = OpenEnvParams
    evaluation_seats = ("solo",)
    aimless = REASON
    curves = ("return",)

    def __init__(self, game: OpenEnvParams) -> None:
        """Make the task; all its environments share the sessions and the breaker of one `Server`."""
        super().__init__(game)
        self._server = Server(game)

    def make(self) -> OpenEnvEnvironment:
        """A new environment on the server; nothing is asked before its first `reset`."""
        return OpenEnvEnvironment(self._server)

    def expert(self, prompt: Prompt) -> Reply:
        """Any of the listed actions, always the same in the same situation: what is good is not known here."""
        seen: Seen = prompt.observation
        return Reply(REASON, Random(repr(seen)).choice(seen.actions))

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """The expert, which in a share of the turns draws any of the listed actions.

        If there is no expert but this one, all turns are drawn: otherwise one situation would show one action only.
        """
        aimless = type(self).expert is OpenEnv.expert
        # A stream of its own: a server that draws from Random(seed) would else draw what a player of that seed draws.
        random = Random(f"openenv {random.random()}")

        def play(prompt: Prompt) -> Reply:
            if aimless or random.random() < random_action_rate:
                return Reply(REASON, random.choice(prompt.observation.actions))
            return self.expert(prompt)

        return play

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Other actions, for the text that a tiny base model reads."""
        actions = observation.actions
        return [Reply(REASON, action) for action in random.sample(actions, min(count, len(actions)))]
