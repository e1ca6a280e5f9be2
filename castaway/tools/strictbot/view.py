"""The view of STRICTBOT: a chat in which a typed line becomes a question, and each answer is rated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.question import NAMES
from castaway.envs.strictbot.renderings import language_of
from castaway.errors import CastawayError
from castaway.tasks.environment import Message
from castaway.tasks.reply import parse_reply
from castaway.tools.view import TaskView


class StrictbotView(TaskView):
    """The view of STRICTBOT; without a run it asks in plain English."""

    chats = True
    one_turn = True

    @cached_property
    def _language(self) -> Language:
        return language_of(self.game.rendering if isinstance(self.game, StrictbotParams) else "full")

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for `QUESTION | FACT`, or for a question alone, whose fact is looked up in the bank.

        Raises:
            CastawayError: no fact was typed, and the bank has none.
        """
        prompts = self._language.prompts
        question, mark, typed = line.partition("|")
        asked = prompts.typed(question)
        fact = prompts.typed(typed) if mark else self._language.fact_about(asked)
        if not fact:
            raise CastawayError(
                f"nothing is known about that; type what is so behind a bar: {asked} | {prompts.example}"
            )
        return prompts.messages(Observation(asked, fact))

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        """The level of an answer according to the judge."""
        language = self._language
        fact = language.prompts.read_back(messages).fact
        (level,) = language.judge.produced_levels([(parse_reply(answer).action, fact)])
        return f"level {level}: {NAMES[level]}" if level else "no level"
