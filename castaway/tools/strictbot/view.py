"""The view of STRICTBOT: a chat in which a typed line becomes a question, and each answer is rated."""

from collections.abc import Sequence
from functools import cached_property

from castaway.config.errors import CastawayError
from castaway.envs.strictbot.language import Language, language_of
from castaway.envs.strictbot.question_bank import NAMES, Observation
from castaway.envs.strictbot.rewards import StrictbotParams
from castaway.rollout.episodes import Row
from castaway.tasks.environment import Message
from castaway.tasks.reply import parse_reply
from castaway.tools.transcript import clean
from castaway.tools.view import TaskView


class StrictbotView(TaskView):
    """The view of STRICTBOT; without a run it asks in plain English."""

    chats = True
    one_turn = True

    @cached_property
    def _language(self) -> Language:
        return language_of(self.game.rendering if isinstance(self.game, StrictbotParams) else "full")

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for `QUESTION | FACT`, or for a question alone, whose fact is looked up in the bank."""
        prompts = self._language.prompts
        question, mark, typed = line.partition("|")
        asked = prompts.typed(question)
        fact = prompts.typed(typed) if mark else self._language.fact_about(asked)
        if not fact:
            raise CastawayError(
                f"nothing is known about that; type what is so behind a bar: {asked} | {prompts.example}"
            )
        return prompts.messages(Observation(asked, fact))

    def brief(self, rows: Sequence[Row]) -> list[str]:
        head, asked, answered = rows[0], rows[1], rows[-1]
        agent, question = next(iter(asked["questions"].items()))
        deserved = f"{NAMES[question['level']]} ({question['kind']})"
        return [
            f"asked     {clean(question['asked'])} ?",
            f"it is so  {clean(question['fact'])}",
            f"answer    {clean(answered['questions'][agent].get('answer') or asked['said'][agent]['action'])}",
            f"deserved  {deserved}; {clean(str(head['ending']))}",
        ]

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        language = self._language
        fact = language.prompts.read_back(messages).fact
        (level,) = language.judge.produced_levels([(parse_reply(answer).action, fact)])
        return f"level {level}: {NAMES[level]}" if level else "no level"
