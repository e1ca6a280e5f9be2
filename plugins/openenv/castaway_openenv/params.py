"""The section `game` of a run whose environment is an OpenEnv server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from castaway.config.errors import CastawayError
from castaway.config.section import Positive, PositiveInteger, Section
from pydantic import Field, model_validator


class OpenEnvParams(Section):
    """Which server, what of it an agent sees, what it may do, and what counts as success."""

    url: str = Field(pattern=r"^https?://[^/]+")
    """Address of the server, such as http://127.0.0.1:8000."""
    instructions: str
    """The system message: the rules of the game, and what an action looks like."""
    show: list[str] = Field(default_factory=list)
    """Fields of the server's observation that the agent sees, in this order; if empty, all but `metadata`."""
    action: str = ""
    """Field of the server's action that takes what the agent typed; if empty, each action is a whole JSON object."""
    constants: dict[str, Any] = Field(default_factory=dict)
    """Other fields of each action."""
    actions: list[Any] = Field(default_factory=list)
    """The actions, where they are the same in every turn: texts, numbers, or JSON objects."""
    legal: str = ""
    """Field of the server's observation that lists the actions, where they change from turn to turn."""
    free_text: bool = False
    """Whether any line of text is an action; `actions` then holds examples, which demonstrators draw from."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """Arguments of `reset` beside the seed."""
    turns: PositiveInteger
    """After so many turns an episode has ended, whatever the server says."""
    success: float
    """An episode is a success if its rewards sum to at least this."""
    unseeded: bool = False
    """Train although the server does not repeat an episode for the same seed; the result is then not reproducible."""
    attempt_seconds: Positive = 30.0
    """How long the server may take for one answer."""
    deadline_seconds: Positive = 120.0
    """How long a step may take, with all attempts and pauses."""
    patience_seconds: Positive = 60.0
    """How long nothing but failures is borne before the server counts as down."""

    @model_validator(mode="after")
    def _actions_are_known(self) -> Self:
        if bool(self.actions) == bool(self.legal):
            raise ValueError("give either `actions` or `legal`: what an agent may do has to be listed in one of them")
        if self.free_text and not (self.actions and self.action):
            raise ValueError("`free_text` needs `action`, the field for the text, and examples in `actions`")
        return self

    def offered(self, observation: Mapping[str, Any]) -> list[Any]:
        """The actions that are listed now."""
        return list((observation[self.legal] if self.legal else self.actions) or ())

    def message(self, action: Any) -> dict[str, Any]:
        """The server's action for one that is listed, or for free text.

        Raises:
            CastawayError: it is no JSON object, and no field is named that takes it.
        """
        found = {self.action: action} if self.action else action
        if not isinstance(found, dict):
            raise CastawayError(f"the action {action!r} is no JSON object: name the field that takes it in game.action")
        return {**self.constants, **found}
