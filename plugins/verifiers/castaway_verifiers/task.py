"""The task `verifiers`: an environment of verifiers that needs neither tools nor a network."""

from __future__ import annotations

from functools import cached_property
from random import Random
from typing import Any

from castaway.config.errors import CastawayError
from castaway.tasks import Task
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player

from castaway_verifiers.environment import VerifiersEnvironment
from castaway_verifiers.host import Host
from castaway_verifiers.params import VerifiersParams

REASON = "any"
"""The reasoning of a player that has no reason."""


class Verifiers(Task[VerifiersParams]):
    """Tasks that somebody else wrote."""

    name = "verifiers"
    game_model = VerifiersParams
    evaluation_seats = ("all",)
    aimless = REASON
    curves = ("return",)

    @cached_property
    def _host(self) -> Host:
        """Made when it is needed first: checking params.yaml needs no environment."""
        return Host(self.game)

    @cached_property
    def _split(self) -> tuple[list[int], list[int]]:
        """The numbers of the tasks for training and of those that are held out."""
        rows = range(len(self._host.tasks))
        held_out = sorted(Random(0).sample(rows, self.game.held_out))
        return [row for row in rows if row not in set(held_out)], held_out

    def make(self) -> VerifiersEnvironment:
        """A new environment."""
        return VerifiersEnvironment(self._host, *self._split)

    def expert(self, prompt: Prompt) -> Reply:
        """The right answer if the task's data hold it, else the same example for the same task."""
        row = prompt.observation.row
        return Reply(REASON, self._right(row) if self.game.answer else Random(row).choice(self.game.examples))

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """The expert, which in a share of the turns gives an example or the answer to another task."""

        def play(prompt: Prompt) -> Reply:
            if self.game.answer and random.random() >= random_action_rate:
                return self.expert(prompt)
            return Reply(REASON, self._any(random))

        return play

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Answers to other tasks, for the text that a tiny base model reads."""
        return [Reply(REASON, self._any(random)) for _ in range(count)]

    def _any(self, random: Random) -> str:
        """An example; without examples, the answer to any training task."""
        if self.game.examples:
            return random.choice(self.game.examples)
        return self._right(random.choice(self._split[0]))

    def _right(self, row: int) -> str:
        """The right answer to a task, as one line.

        Raises:
            CastawayError: the task's data have no such field.
        """
        found: Any = self._host.tasks[row].data.model_dump()
        for part in self.game.answer.split("."):
            if not isinstance(found, dict) or part not in found:
                raise CastawayError(f"the data of task {row} of {self.game.id} have no field {self.game.answer!r}")
            found = found[part]
        return " ".join(self.game.form.format(answer=found).split())
