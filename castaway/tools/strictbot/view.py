"""The view of STRICTBOT: a chat in which a typed line becomes a question, and each answer is rated."""

from collections.abc import Sequence
from functools import cached_property

from castaway.envs.strictbot.language import Language, language_of
from castaway.envs.strictbot.question_bank import NAMES
from castaway.envs.strictbot.rewards import StrictbotParams
from castaway.rollout.episodes import Row
from castaway.tasks.environment import Message
from castaway.tasks.reply import parse_reply
from castaway.tools.strictbot.asking import Asking
from castaway.tools.strictbot.facts import read_facts
from castaway.tools.stutter import stutters
from castaway.tools.transcript import clean
from castaway.tools.view import TaskView


class StrictbotView(TaskView):
    """The view of STRICTBOT; without a run it asks in plain English."""

    chats = True
    one_turn = True
    looks_up = True

    @cached_property
    def _language(self) -> Language:
        return language_of(self.game.rendering if isinstance(self.game, StrictbotParams) else "full")

    @cached_property
    def _asking(self) -> Asking:
        return Asking(self._language, read_facts(self.facts) if self.facts else ())

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for `QUESTION | FACT`, or for a question alone, whose fact is looked up."""
        return self._language.prompts.messages(self._asking.read(line)[0])

    def chat_source(self, line: str) -> str:
        observation, source = self._asking.read(line)
        asked = f"{observation.asked} ? " if self._language.compact else ""
        return f"{asked}known from {source}: {observation.fact}"

    def chat_fault(self, messages: Sequence[Message], answer: str) -> bool:
        """Whether an answer stutters, or one of the tiny tutor does not say what is known."""
        fact = self._language.prompts.read_back(messages).fact
        unsaid = self._language.compact and not self._language.reader.says(answer, fact)
        return unsaid or stutters(answer, messages[-1]["content"])

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
