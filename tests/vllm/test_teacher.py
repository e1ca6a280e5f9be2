"""The served teacher against vLLM: answers fit the schema whatever the model, and the rules have the last word.

The model is untrained, so that nothing but the server makes its answers JSON of the right shape.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace

from castaway.rollout.server import Server, running
from castaway.rollout.vllm import Serving
from castaway.tasks.verdict import Attempt
from castaway.teacher.chat_client import ChatClient, Endpoint
from castaway.teacher.protocol import answer_schema, parse_answer, question
from castaway.teacher.rules import RulesTeacher
from castaway.teacher.served import ServedOptions, ServedTeacher
from tests.castaway.rollout.test_server import group_of
from tests.vllm.game import RUBRIC, RULES, illegal, legal

LONG = 3000
"""Tokens in which an untrained model comes to the end of the longest answer that the schema allows."""


def teacher_of(server: Server, on_outage: str = "pause", deadline: float = 90.0, tokens: int = LONG) -> ServedTeacher:
    endpoint = Endpoint(
        server.url, "teacher", answer_tokens=tokens, deadline_seconds=deadline, patience_seconds=deadline
    )
    return ServedTeacher(RUBRIC, RULES, endpoint, ServedOptions(on_outage=on_outage))  # type: ignore[arg-type]


def answers(server: Server, model: str, attempts: Sequence[Attempt]) -> list[str]:
    """What the server says, as it says it."""

    async def ask() -> list[str]:
        client = ChatClient(Endpoint(server.url, model, answer_tokens=LONG))
        questions = [question(RUBRIC, RULES, attempt) for attempt in attempts]
        try:
            return await asyncio.gather(*(client.complete(one, answer_schema()) for one in questions))
        finally:
            await client.close()

    return asyncio.run(ask())


def test_whatever_the_model_its_answers_fit_the_schema(server: Server) -> None:
    found = answers(server, "teacher", illegal(64))
    assert len({parse_answer(text) for text in found}) > 16


def test_sixty_four_questions_at_once_become_verdicts_where_the_player_was_right(server: Server) -> None:
    teacher, asked = teacher_of(server), legal(64)
    verdicts = teacher.judge(asked)
    by_rules = RulesTeacher(RULES).judge(asked)
    assert all(verdict.source == "teacher" and verdict.valid for verdict in verdicts)
    assert [verdict.action for verdict in verdicts] == [verdict.action for verdict in by_rules]
    assert len({verdict.critique for verdict in verdicts}) > 16 and teacher.counts["tries"] == 64
    teacher.close()


def test_nonsense_that_fits_the_schema_puts_nothing_right(server: Server) -> None:
    teacher, asked = teacher_of(server, tokens=192), illegal(16)
    verdicts = teacher.judge(asked)
    assert [replace(verdict, dispute=None, source="rules") for verdict in verdicts] == RulesTeacher(RULES).judge(asked)
    assert any(verdict.dispute for verdict in verdicts)
    assert teacher.unusable_share == 1 and teacher.counts["unusable"] == 16 and teacher.counts["tries"] == 32
    teacher.close()


def test_an_adapter_beside_the_base_answers_under_its_own_name_and_as_another(server: Server) -> None:
    asked = illegal(16)
    base, other = answers(server, "teacher", asked), answers(server, "other", asked)
    assert all(parse_answer(text) for text in other)
    assert all(one != two for one, two in zip(base, other, strict=True))


def test_a_server_that_is_killed_and_started_again_at_its_address_is_waited_for(serving: Serving) -> None:
    asked = legal(48)
    with running(serving) as first:
        teacher = teacher_of(first, deadline=600.0)
        judged: list[object] = []
        judging = threading.Thread(target=lambda: judged.extend(teacher.judge(asked)), daemon=True)
        judging.start()
        while teacher.counts.get("tries", 0) < 48:
            judging.join(0.01)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    assert group_of(first.process.pid) == []
    with running(replace(serving, port=first.serving.port)) as second:
        judging.join(600)
        assert not judging.is_alive() and len(judged) == 48
        assert second.url == first.url
    assert teacher.counts["tries"] > 48, "the kill came too late to be noticed"
    assert {verdict.source for verdict in judged} == {"teacher"}  # type: ignore[attr-defined]
    teacher.close()
