"""The server that params.yaml names."""

from __future__ import annotations

from castaway.config.sections import TeacherParams
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.key import secret


def endpoint_of(params: TeacherParams) -> Endpoint:
    """The server that the parameters name, and how it is treated."""
    return Endpoint(
        url=params.url,
        model=params.model,
        key=secret(),
        concurrency=params.concurrency,
        attempt_seconds=params.attempt_seconds,
        deadline_seconds=params.deadline_seconds,
        patience_seconds=params.patience_seconds,
        answer_tokens=params.answer_tokens,
    )
