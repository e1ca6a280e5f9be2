"""An environment of verifiers as a text environment.

What an agent is asked is shown as one user message, with the system message before it if there is one: earlier replies
are marked in it, since a prompt of Castaway has no turns of its own. What is sent back is the action alone. verifiers
pays when an episode has ended, so the last reply of an agent is paid for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from castaway.tasks.environment import (
    HELD_OUT_START,
    Message,
    Outcome,
    Prompt,
    Refusal,
    TextEnvironment,
    is_held_out,
)

from castaway_verifiers.host import Host, Play, Question

IDLE = "no answer"
LONGEST_TEXT = 8_192
"""Maximum length of an action, in characters."""
FORM = "Reply with two lines:\nREASONING: why, in a few words\nACTION: the answer"


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent knows: what it was asked, and the number of the task, which says nothing about the answer."""

    row: int
    messages: tuple[Message, ...]


class AnyLine:
    """Every line of text is an action: what is right is for the environment to say."""

    def __init__(self, examples: Sequence[str]) -> None:
        """With these texts as what is listed."""
        self._examples = tuple(examples) or (IDLE,)

    def refusal(self, observation: Asked, action: str) -> Refusal | None:
        """Why the text is not one line, or None if it is."""
        if "\n" in action or not action.strip() or len(action) > LONGEST_TEXT:
            return Refusal("form", f"Answer with one line of at most {LONGEST_TEXT} characters.")
        return None

    def legal_actions(self, observation: Asked) -> tuple[str, ...]:
        """The examples."""
        return self._examples

    def repair(self, observation: Asked, text: str) -> str:
        """The first line of the text; if it has none, the example that is most like it."""
        lines = [line.strip()[:LONGEST_TEXT] for line in text.split("\n") if line.strip()]
        if lines:
            return lines[0]
        return max(self._examples, key=lambda one: SequenceMatcher(None, one, text[:200], False).ratio())

    def reason(self, observation: Asked, action: str) -> str:
        """No reason is known here."""
        return "any"

    def blunder(self, observation: Asked, action: str) -> str:
        """No mistake is known here."""
        return ""


class VerifiersEnvironment(TextEnvironment):
    """One episode at a time."""

    name, seats, idle = "verifiers", ("all",), IDLE

    def __init__(self, host: Host, training: Sequence[int], held_out: Sequence[int]) -> None:
        """Play tasks of this host: `training` and `held_out` are their numbers, which ids go round in."""
        self.agents = host.agents
        self.rules = AnyLine(host.game.examples)
        self._host, self._training, self._held_out = host, training, held_out
        self._play: Play | None = None

    def reset(self, task_id: int, seat: str) -> None:
        """Start an episode of the task that the id stands for.

        Raises:
            ValueError: the id is negative or the seat unknown.
            CastawayError: the environment has failed.
        """
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._stop()
        rows, number = (self._held_out, task_id - HELD_OUT_START) if is_held_out(task_id) else (self._training, task_id)
        self.row = rows[number % len(rows)]
        self.played: list[tuple[str, str]] = []
        self.paid = dict.fromkeys(self.agents, 0.0)
        self._play = Play(self._host, self.row)
        self._set(self._host.run(self._play.begin()))

    def prompts(self) -> tuple[Prompt, ...]:
        """The prompt of the agent that is asked."""
        if self._question is None:
            return ()
        messages = shown(self._question.messages)
        return (Prompt(self._question.agent, self._question.agent, messages, Asked(self.row, messages)),)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Send the reply of the agent that was asked.

        Raises:
            ValueError: the episode is over.
            CastawayError: the environment has failed.
        """
        if self._play is None or self._question is None:
            raise ValueError("the episode is over: reset before the next step")
        agent = self._question.agent
        text = actions.get(agent, IDLE)
        text = IDLE if self.rules.refusal(Asked(self.row, ()), text) else text
        self.played.append((agent, text))
        self._set(self._host.run(self._play.answer(text)))
        return dict(self.paid)

    def _set(self, said: Question | dict[str, float]) -> None:
        self._question = said if isinstance(said, Question) else None
        if not isinstance(said, Question):
            self.paid, self._play = said, None

    def _stop(self) -> None:
        if self._play is not None:
            self._host.run(self._play.stop())
            self._play = None

    def __del__(self) -> None:
        self._stop()

    @property
    def done(self) -> bool:
        """Whether verifiers has ended the episode."""
        return self._question is None

    def outcome(self) -> Outcome:
        """Whether the first agent's reward is what counts as success."""
        paid = self.paid[self.agents[0]]
        return Outcome(paid >= self._host.game.success, "scored", {"return": sum(self.paid.values())})

    def snapshot(self) -> dict[str, Any]:
        """The number of the task and the replies, which are the whole state."""
        return {"row": self.row, "played": [list(one) for one in self.played], "paid": dict(self.paid)}


def shown(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Messages in OpenAI's form as those of a prompt: at most one of the system, then one of the user."""
    system = "\n\n".join(_text(message["content"]) for message in messages if message["role"] == "system")
    turns = [message for message in messages if message["role"] != "system"]
    marks = {"assistant": "You said: ", "user": "", "tool": "Result: "}
    said = "\n\n".join(f"{marks.get(turn['role'], '')}{_text(turn['content'])}" for turn in turns)
    head = f"{system}\n\n{FORM}" if system else FORM
    return ({"role": "system", "content": head}, {"role": "user", "content": said or "Your turn."})


def _text(content: Any) -> str:
    """The text of a message; pictures are left out."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
