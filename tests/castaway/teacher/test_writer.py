"""A teacher that writes: many requests, faults, duplicates, and nothing that is paid for twice."""

from pathlib import Path

import pytest

from castaway.envs.strictbot.exercise_writer import ExerciseWriter
from castaway.tasks.verdict import TeacherOutage
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.protocol import AnswerCache
from castaway.teacher.served import MOST_REQUESTS, written
from tests.castaway.envs.strictbot.renderings import TASKS
from tests.castaway.teacher.writing import WritingServer, serving

COMMISSION = ExerciseWriter(TASKS["compact"].make())
COUNT = 24


def endpoint(server: WritingServer, model: str = "good") -> Endpoint:
    return Endpoint(server.url, model, concurrency=4, attempt_seconds=60, deadline_seconds=60, patience_seconds=0.2)


def test_as_many_as_are_wanted_in_the_order_of_their_numbers_and_none_twice(tmp_path: Path) -> None:
    with serving() as server:
        first = written(endpoint(server), AnswerCache(tmp_path / "store"), COMMISSION, COUNT)
        more = written(endpoint(server), AnswerCache(tmp_path / "store"), COMMISSION, COUNT + 6)
    numbers = [item.prompt.observation.asked.split(" number ")[1].split(" ")[0] for item in more]
    assert numbers == [str(number) for number in range(COUNT + 6)] and more[:COUNT] == first
    assert server.asked.total() == COUNT + 6


def test_a_server_that_fails_stops_the_run_and_keeps_what_it_wrote(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "store")
    with serving(fails_after=10) as server, pytest.raises(TeacherOutage, match=r"start it and run the stage again"):
        written(endpoint(server), cache, COMMISSION, COUNT)
    with serving() as healthy:
        found = written(endpoint(healthy), cache, COMMISSION, COUNT)
    assert len(found) == COUNT
    assert healthy.asked.total() == COUNT - 10, "the ten that were answered are not asked for again"
    with serving() as other:
        assert written(endpoint(other), AnswerCache(tmp_path / "fresh"), COMMISSION, COUNT) == found


def test_what_cannot_be_used_is_asked_for_once_more(tmp_path: Path) -> None:
    with serving() as server:
        found = written(endpoint(server, "sloppy"), AnswerCache(tmp_path / "store"), COMMISSION, COUNT)
    assert len(found) == COUNT
    assert set(server.asked.values()) == {2}


def test_a_teacher_that_writes_nothing_of_use_is_not_asked_without_end(tmp_path: Path) -> None:
    with serving() as server:
        assert written(endpoint(server, "prose"), AnswerCache(tmp_path / "store"), COMMISSION, 6) == []
    assert len(server.asked) == MOST_REQUESTS * 6


def test_duplicates_are_dropped_and_others_asked_for(tmp_path: Path) -> None:
    with serving() as server:
        found = written(endpoint(server, "same"), AnswerCache(tmp_path / "store"), COMMISSION, 12)
    identities = [item.identity for item in found]
    assert len(set(identities)) == len(identities) < 12
    assert len(server.asked) >= MOST_REQUESTS * 12
