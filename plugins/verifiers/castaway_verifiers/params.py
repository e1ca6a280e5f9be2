"""The section `game` of a run whose environment comes from verifiers."""

from __future__ import annotations

from typing import Any, Self

from castaway.config.section import Positive, PositiveInteger, Section
from pydantic import Field, model_validator


class VerifiersParams(Section):
    """Which environment, how its tasks are split, and what a right answer is."""

    id: str
    """The taskset's id, as verifiers takes it: the name of an installed package."""
    environment: str = ""
    """The id of an environment to pair it with; if empty, the taskset's own, or a single agent."""
    taskset: dict[str, Any] = Field(default_factory=dict)
    """Settings of the taskset."""
    tasks: PositiveInteger
    """How many of its tasks are read, from the first on."""
    held_out: PositiveInteger
    """How many of these are kept for evaluation, drawn by chance."""
    turns: PositiveInteger
    """After so many replies of an agent its part has ended."""
    success: float
    """An episode is a success if what the first agent is paid sums to at least this."""
    answer: str = ""
    """Field of a task's data that holds the right answer, for demonstrations; `info.answer` is one within a mapping."""
    form: str = "{answer}"
    """How a right answer is written, such as `[{answer}]`; other braces stand twice, as in `{{{answer}}}`."""
    examples: list[str] = Field(default_factory=list)
    """Answers that demonstrators draw from where no right one is known; also what a careless one says. Without `answer`
    there are at least two."""
    seconds: Positive = 60.0
    """How long the environment may take from a reply to its next question."""

    @model_validator(mode="after")
    def _form_has_a_place(self) -> Self:
        try:
            forms = {self.form.format(answer=answer) for answer in ("one", "other")}
        except (KeyError, IndexError, ValueError):
            forms = set()
        if len(forms) < 2:
            raise ValueError(
                f"form is {self.form!r}, expected a text with {{answer}} at the place of a right answer, and other "
                "braces twice"
            )
        return self

    @model_validator(mode="after")
    def _answers_differ(self) -> Self:
        if not self.answer and len(set(self.examples)) < 2:
            raise ValueError(
                "answer is not set, and examples has fewer than two different texts: preference pairs need answers "
                "that differ, so set one of the two"
            )
        return self
