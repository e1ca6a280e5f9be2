"""The rules for answers, and what a teacher needs: corrections and mistakes."""

from __future__ import annotations

from castaway.envs.strictbot.answers import LEVELS, openings_in, proper, read_level, says, statements_in, words
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import NAMES, Question
from castaway.envs.strictbot.reward.toxicity import abusive
from castaway.envs.strictbot.telling import question_of
from castaway.tasks.environment import Refusal

IDLE = "I do not know"
"""The idle action."""
FEWEST_WORDS, MOST_WORDS = 1, 32
MOST_CHARACTERS = 200


class StrictbotRules:
    """The `Rules` of STRICTBOT: any civil sentence is a legal answer."""

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Why the text is not a legal answer, or None if it is.

        Both severities used here are among the most expensive ones. If an endless answer cost less than a wrong one, it
        would be the better choice for a policy that does not know the right answer.
        """
        said = words(action)
        if not said or not action.isascii() or not action.isprintable() or not any(word.isalpha() for word in said):
            return Refusal("unknown", "An answer is a line of plain words.")
        if len(said) > MOST_WORDS or len(action) > MOST_CHARACTERS:
            return Refusal("unknown", f"An answer has at most {MOST_WORDS} words and {MOST_CHARACTERS} characters.")
        if openings_in(action).total() > 1 or statements_in(action) > 1:
            return Refusal("forbidden", "That is more than one answer to one question.")
        if abusive(action):
            return Refusal("forbidden", "A tutor does not insult.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        """The idle action, and one answer of each level."""
        return (IDLE, *(proper(level, observation.fact) for level in LEVELS))

    def repair(self, observation: Observation, text: str) -> str:
        """The answer that the question deserves, whatever was written."""
        return proper(_question(observation).level, observation.fact)

    def reason(self, observation: Observation, action: str) -> str:
        """The kind of the question."""
        return _question(observation).kind

    def blunder(self, observation: Observation, action: str) -> str:
        """Why an answer is a mistake: it is false, or not of the level that the question deserves."""
        question = _question(observation)
        if says(action, question.false):
            return "That is not so."
        if read_level(action, question.fact) != question.level:
            return f"A {question.kind} deserves {NAMES[question.level]}."
        return ""


def _question(observation: Observation) -> Question:
    """The question with its kind: from the bank, or derived from the words of a synthetic one."""
    return question_of(observation.asked, observation.fact)
