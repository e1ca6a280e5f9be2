"""What a served teacher has to answer: four fields of JSON, checked in full although the server was asked for them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from castaway.teacher.base import WORST_PENALTY

LONGEST_TEXT = 4000
"""Characters of an answer that are read; what is longer is refused unread."""


class Answer(BaseModel):
    """A model's opinion of one attempt, in its own words: nothing of it has been checked against the game."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    valid: bool
    """Whether it takes the student's action for legal."""
    action: Annotated[str, Field(max_length=200)]
    """What it would have executed."""
    penalty: float
    """By its own scale; see `on_the_scale`."""
    critique: Annotated[str, Field(max_length=500)]
    """One sentence."""

    @property
    def on_the_scale(self) -> float:
        """The penalty, held between the worst there is and 0."""
        return max(WORST_PENALTY, min(0.0, self.penalty))

    @property
    def remark(self) -> str:
        """The critique on one line."""
        return " ".join(self.critique.split())


def answer_schema() -> dict[str, Any]:
    """The JSON schema of an answer, as `response_format` takes it: without titles, all fields required.

    It lets the penalty be one of the scale's tenths only, which the reader does not insist on. A server that writes
    whatever fits lets an unsure model write digits without end, or a number that is larger than any float.
    """
    schema = Answer.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema["properties"].items()
    }
    tenths = range(0, int(10 * WORST_PENALTY) - 1, -1)
    properties["penalty"]["enum"] = [tenth / 10 if tenth % 10 else tenth // 10 for tenth in tenths]
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_answer(text: str) -> Answer:
    """Read an answer.

    Raises:
        ValueError: it is not one; the message says why in a few words that the model can be shown.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the answer has {len(text)} characters, at most {LONGEST_TEXT} are read")
    try:
        return Answer.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the answer"
        raise ValueError(f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
