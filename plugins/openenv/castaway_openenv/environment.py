"""A game on an OpenEnv server as a text environment with one agent, the player.

OpenEnv has no action that does nothing. Here `PASS` is one: nothing is sent, the server's game stays where it is, and
one of the episode's turns is gone. What is not legal, and free text that the server rejects, costs a turn as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from castaway.config.errors import CastawayError
from castaway.tasks import ChoiceRules
from castaway.tasks.environment import Message, Outcome, Prompt, Refusal, TextEnvironment

from castaway_openenv.episode import Episode
from castaway_openenv.params import OpenEnvParams
from castaway_openenv.seeds import check_seeds
from castaway_openenv.server import Server
from castaway_openenv.session import Moment

PASS = "PASS"
LONGEST_TEXT = 8_192
"""Maximum length of an action in free text, in characters."""
FORM = "Reply with two lines:\nREASONING: why, in a few words\nACTION: the action"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the player knows: the shown fields of the server's observation, and the actions."""

    fields: Mapping[str, Any]
    actions: tuple[str, ...]
    """As typed; `PASS` alone if the server lists none."""


def typed(action: Any) -> str:
    """An action of the server as it is typed: text as it is, anything else as JSON."""
    return action if isinstance(action, str) else json.dumps(action, ensure_ascii=False)


class ServerRules(ChoiceRules):
    """The listed actions; where text is free, any line of it."""

    def __init__(self, free_text: bool) -> None:
        """Make the rules of a game in which text is free, or not."""
        super().__init__(lambda seen: seen.actions, PASS)
        self._free = free_text

    def refusal(self, observation: Seen, action: str) -> Refusal | None:
        """Why the text is not a legal action, or None if it is one."""
        if not self._free:
            return super().refusal(observation, action)
        if "\n" in action or not action.strip() or len(action) > LONGEST_TEXT:
            return Refusal("form", f"Answer with one line of at most {LONGEST_TEXT} characters.")
        return None

    def repair(self, observation: Seen, text: str) -> str:
        """The first line of free text; else the listed action most similar to the text."""
        lines = [line.strip()[:LONGEST_TEXT] for line in text.split("\n") if line.strip()]
        return lines[0] if self._free and lines else super().repair(observation, text)


class OpenEnvEnvironment(TextEnvironment):
    """One episode at a time; the seed is the task id."""

    name, agents, seats, idle = "openenv", ("player",), ("solo",), PASS

    def __init__(self, server: Server) -> None:
        """Play on this server; nothing is asked before `reset`."""
        self.game: OpenEnvParams = server.game
        self.rules = ServerRules(server.game.free_text)
        self._server = server
        self._episode: Episode | None = None

    def reset(self, task_id: int, seat: str) -> None:
        """Start the episode of this seed.

        Raises:
            ValueError: the id is negative or the seat unknown.
            CastawayError: the server does not answer, or does not repeat an episode for the same seed.
        """
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        check_seeds(self._server)
        self._close()
        self.seed, self.turn, self.total = task_id, 0, 0.0
        self.played: list[str] = []
        self._episode = Episode(self._server, task_id)
        self._set(self._server.run(self._episode.begin()))
        if self.done:
            self._close()

    def prompts(self) -> tuple[Prompt, ...]:
        """The player's prompt: the instructions, then the fields and the actions."""
        if self.done:
            return ()
        lines = [f"{name}: {typed(value)}" for name, value in self.seen.fields.items()]
        if self.game.legal:
            lines.append(f"actions: {', '.join(self.seen.actions)}")
        messages: tuple[Message, ...] = (
            {"role": "system", "content": f"{self.game.instructions.strip()}\n{FORM}"},
            {"role": "user", "content": "\n".join(lines) or "Your turn."},
        )
        return (Prompt("player", "player", messages, self.seen),)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Send the player's action to the server, unless it passes.

        Raises:
            ValueError: the episode is over.
            CastawayError: the server does not answer, or rejects an action that is listed.
        """
        if self._episode is None:
            raise ValueError("the episode is over: reset before the next step")
        text, paid = actions.get("player", PASS), 0.0
        self.turn += 1
        if text != PASS and self.rules.refusal(self.seen, text) is None:
            answer = self._server.run(self._episode.act(self.game.message(self._offered.get(text, text))))
            if isinstance(answer, Moment):
                self._set(answer)
                paid = answer.reward
                self.played.append(text)
            elif not self.game.free_text:
                raise CastawayError(f"{answer} to the listed action {text!r}; mend game.action or game.actions")
        self.total += paid
        if self.done:
            self._close()
        return {"player": paid}

    def _set(self, moment: Moment) -> None:
        """Take in what the server said."""
        self._ended = moment.done
        self._offered = {typed(action): action for action in self.game.offered(moment.observation)}
        shown = {name: value for name, value in moment.observation.items() if name != self.game.legal}
        self.seen = Seen(shown, tuple(self._offered) or (PASS,))

    def _close(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    @property
    def done(self) -> bool:
        """Whether the server says so, or no turn is left."""
        return self._ended or self.turn >= self.game.turns

    def outcome(self) -> Outcome:
        """Whether the rewards sum to what counts as success."""
        return Outcome(
            self.total >= self.game.success, "done" if self._ended else "out of turns", {"return": self.total}
        )

    def snapshot(self) -> dict[str, Any]:
        """The seed and the actions, which are the whole state, and what the player sees."""
        return {
            "seed": self.seed,
            "turn": self.turn,
            "played": list(self.played),
            "sees": dict(self.seen.fields),
            "return": self.total,
        }
