"""What a typed line asks: the question in the form that the tutor reads, and the fact that it is told."""

import re
from collections.abc import Sequence
from functools import cached_property

from castaway.envs.strictbot.compact_questions import core_of, frame_of, value_of
from castaway.envs.strictbot.english import sentence
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question_bank import Observation
from castaway.envs.strictbot.rewards import is_abusive
from castaway.tools.strictbot.arithmetic import computed
from castaway.tools.strictbot.claims import observation_of, with_capitals
from castaway.tools.strictbot.facts import BANK, TYPED, Fact, Facts, facts_of_bank
from castaway.tools.strictbot.wording import OPEN, clause_of, stems_of
from castaway.tools.view import Unanswered

RELATED = 0.6  # share of a question's words that a fact has to have to be told, where nothing else connects the two
GREETINGS = {
    "Hello!": "hello hi hey good morning afternoon evening there how are you",
    "With pleasure.": "can could would will you please help me with a question something now kindly i have",
    "You are welcome.": "thanks thank you so much very a lot lots many cheers that this helped great nice",
    "Goodbye!": "bye goodbye good night see you later",
}
"""What is said to a line that has only these words."""
HINT = "Ask whether something is so, or what is so, for example: is 7 times 8 54"


class Asking:
    def __init__(self, language: Language, facts: Sequence[Fact]) -> None:
        self._language = language
        self._own = facts

    def read(self, line: str) -> tuple[Observation, str]:
        """The question and the fact for `QUESTION | FACT` or a question alone, and the source of the fact.

        In the full rendering a question is taken as it is typed. Unanswered, with a sentence for people, if nothing is
        known, or for the tiny tutor nothing that decides the question.
        """
        typed, mark, told = line.partition("|")
        asked, clause = self._language.prompts.typed(typed), clause_of(typed)
        if self._compact:
            asked = re.sub(r"[,;:.!?]+(?=\s)", "", asked)
        if mark:
            return self._about(asked, clause, told.strip()), TYPED
        same = self._by_core.get(stems_of(clause)) or self._as_in_bank(asked)
        found = None if same and not self._own else self._found(clause)
        if same and not (found and found[1].source != BANK):
            return same, BANK
        if found and self._compact:
            return found[0], found[1].source
        related = [found[1]] if found else self._facts.sharing(clause, RELATED)
        if not related or self._compact:
            raise Unanswered(self._excuse(typed, related))
        fact = related[0]
        return Observation(asked, sentence(fact.text) if fact.family else fact.text), fact.source

    @property
    def _compact(self) -> bool:
        return self._language.compact

    @cached_property
    def _facts(self) -> Facts:
        return Facts([*self._own, *facts_of_bank()])

    @cached_property
    def _by_core(self) -> dict[tuple[str, ...], Observation]:
        """The questions of the compact bank that are no claims, by their words."""
        rows = (one for one in self._language.bank.questions if one.form in ("open", "conclusion") and self._compact)
        return {stems_of(core_of(one.asked)): one.observation for one in rows}

    def _as_in_bank(self, asked: str) -> Observation | None:
        fact = self._language.fact_about(asked)
        return Observation(with_capitals(asked, fact) if self._compact else asked, fact) if fact else None

    def _found(self, clause: str) -> tuple[Observation, Fact] | None:
        rewritten, arithmetic = computed(clause) or (clause, None)
        return observation_of(rewritten, [arithmetic] if arithmetic else self._facts.sharing(clause))

    def _about(self, asked: str, clause: str, told: str) -> Observation:
        """The question about a typed fact; for the tiny tutor that is a sentence, or `it is VALUE` as in the bank."""
        known = self._language.prompts.typed(told)
        value, own = value_of(known), [Fact(told, TYPED)]
        if not self._compact:
            return Observation(asked, known)
        if value == known:
            found = observation_of(clause, own) or observation_of((computed(clause) or (clause,))[0], own)
        elif frame_of(asked)[1] or clause.split(" ")[0] in OPEN or value.split(" ")[0] in ("perhaps", "surely"):
            return Observation(asked, known)
        else:
            found = self._found(clause)
        if not found:
            raise Unanswered(f"I cannot see what that says about it; say both in the same words: {asked} | {told}")
        return found[0] if value == known else Observation(found[0].asked, known)

    def _excuse(self, typed: str, related: Sequence[Fact]) -> str:
        words = set(re.findall(r"\w+", typed.lower()))
        for greeting, own in GREETINGS.items():
            if words and words <= set(own.split()):
                return f"{greeting} {HINT}"
        if is_abusive(typed):
            return f"Let us stay friendly. {HINT}"
        if related:
            known, source = related[0].text.rstrip("."), related[0].source
            return f"I cannot tell. All that I know about it, from {source}: {known}."
        example = self._language.prompts.example
        return f"I know nothing about that, sorry; you can tell me behind a bar: {typed.strip()} | {example}"
