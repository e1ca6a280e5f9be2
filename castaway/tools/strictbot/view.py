"""The view of STRICTBOT: a chat in which a typed line becomes a question, and each answer is rated."""

from __future__ import annotations

from collections.abc import Sequence

from castaway.envs.strictbot.bank import questions
from castaway.envs.strictbot.judge import produced_levels
from castaway.envs.strictbot.observation import Observation, messages, read_back
from castaway.envs.strictbot.question import NAMES
from castaway.errors import CastawayError
from castaway.tasks.environment import Message
from castaway.tasks.reply import parse_reply
from castaway.tools.view import TaskView


class StrictbotView(TaskView):
    """The view of STRICTBOT."""

    chats = True
    one_turn = True

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for `QUESTION | it is FACT`, or for a question alone, whose fact is looked up in the bank.

        Raises:
            CastawayError: no fact was typed, and the bank has none.
        """
        asked, mark, fact = line.partition("|")
        # The bank writes questions without a capital at the beginning, and the model knows no others.
        asked = asked.strip().rstrip("?!. ")
        asked = f"{asked[:1].lower()}{asked[1:]}"
        if not mark:
            known = [question.fact for question in questions() if question.asked.casefold() == asked.casefold()]
            if not known:
                raise CastawayError(f"nothing is known about that; type what is, behind a bar: {asked} | it is ...")
            fact = known[0]
        return messages(Observation(asked, fact.strip().rstrip("?!. ")), "compact")

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        """The level of an answer according to the judge."""
        (level,) = produced_levels([(parse_reply(answer).action, read_back(messages).fact)])
        return f"level {level}: {NAMES[level]}" if level else "no level"
