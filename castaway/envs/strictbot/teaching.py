"""The rules for answers, and what a teacher needs: corrections and mistakes."""

from __future__ import annotations

from castaway.envs.strictbot.answers import LEVELS
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import NAMES
from castaway.envs.strictbot.reward.toxicity import abusive
from castaway.tasks.environment import Refusal

IDLE = "I do not know"
"""The idle action."""


class StrictbotRules:
    """The `Rules` of STRICTBOT: any civil sentence is a legal answer."""

    def __init__(self, language: Language) -> None:
        """Make the rules of one rendering."""
        self._language = language

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is not a legal answer, or None if it is.

        Both severities used here are among the most expensive ones. If an endless answer cost less than a wrong one, it
        would be the better choice for a policy that does not know the right answer.
        """
        reader, answers, limits = self._language.reader, self._language.answers, self._language.limits
        said = reader.words(action)
        legible = action.isprintable() and (action.isascii() or not limits.ascii)
        if not said or not legible or not any(word.isalpha() for word in said):
            return Refusal("unknown", "An answer is a line of plain words.")
        if len(said) > limits.words or len(action) > limits.characters:
            return Refusal("unknown", f"An answer has at most {limits.words} words and {limits.characters} characters.")
        stated = reader.times(action, self._language.stated or observation.fact)
        if answers.openings_in(action).total() > 1 or stated > 1:
            return Refusal("forbidden", "That is more than one answer to one question.")
        if abusive(action):
            return Refusal("forbidden", "A tutor does not insult.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """The idle action, and one answer of each level."""
        return (IDLE, *(self._language.answers.proper(level, observation.fact) for level in LEVELS))

    def repair(self, observation: Observation, text: str) -> str:
        """The answer that the question deserves, whatever was written."""
        question = self._language.question_behind(observation)
        return self._language.answers.proper(question.level, question.fact, question.form)

    def reason(self, observation: Observation, action: str) -> str:
        """What a tutor thinks who looks at the question: it ends in the kind."""
        question = self._language.question_behind(observation)
        return self._language.reasoning(question, question.kind)

    def blunder(self, observation: Observation, action: str) -> str:
        """Why an answer is a mistake: it is false, or not of the level that the question deserves."""
        question = self._language.question_behind(observation)
        if self._language.reader.says(action, question.false):
            return "That is not so."
        if self._language.answers.read_level(action, question.fact) != question.level:
            return f"A {question.kind} deserves {NAMES[question.level]}."
        return ""
