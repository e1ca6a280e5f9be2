"""The server that params.yaml names."""

from __future__ import annotations

from castaway.config.params import TeacherParams
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.key import secret


def endpoint_of(params: TeacherParams) -> Endpoint:
    """The server that the parameters name, and how it is treated."""
    return Endpoint(
        params.url,
        params.model,
        secret(),
        params.concurrency,
        params.attempt_seconds,
        params.deadline_seconds,
        params.patience_seconds,
        params.answer_tokens,
    )
