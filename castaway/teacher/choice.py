"""The teacher that params.yaml names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from castaway.config.params import TeacherParams
from castaway.tasks.environment import Rules
from castaway.teacher.base import Teacher
from castaway.teacher.cache import AnswerCache
from castaway.teacher.endpoint import endpoint_of
from castaway.teacher.rules import RulesTeacher
from castaway.teacher.served import Conduct, ServedTeacher, Witness


@contextmanager
def chosen_teacher(params: TeacherParams, task: str, rules: Rules, store: Path, witness: Witness) -> Iterator[Teacher]:
    """A teacher for moves of `task`, closed afterwards; answers are kept in `store`, a sample is told to `witness`."""
    if params.kind == "rules":
        yield RulesTeacher(rules)
        return
    conduct = Conduct(params.cascade, params.override_legal, params.on_outage)
    teacher = ServedTeacher(task, rules, endpoint_of(params), conduct, AnswerCache(store), witness)
    try:
        yield teacher
    finally:
        teacher.close()
