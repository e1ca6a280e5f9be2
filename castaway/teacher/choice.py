"""The teacher that params.yaml names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from castaway.config.sections import TeacherParams
from castaway.tasks.environment import Rules
from castaway.teacher.base import Teacher
from castaway.teacher.cache import AnswerCache
from castaway.teacher.endpoint import endpoint_of
from castaway.teacher.rules import Corrector, RulesTeacher
from castaway.teacher.served import Conduct, Observer, ServedTeacher


@contextmanager
def chosen_teacher(
    params: TeacherParams, rubric: str, rules: Rules, store: Path, observer: Observer, corrector: Corrector | None
) -> Iterator[Teacher]:
    """The teacher, closed afterwards.

    Args:
        params: which teacher, and how it is treated.
        rubric: what the task says of itself to a served teacher.
        rules: the task's.
        store: file in which the answers of a served teacher are kept.
        observer: is shown a sample of the calls to a served teacher.
        corrector: corrects legal moves; None: they are not corrected.
    """
    if params.kind == "rules":
        yield RulesTeacher(rules, corrector)
        return
    conduct = Conduct(cascade=params.cascade, override_legal=params.override_legal, on_outage=params.on_outage)
    teacher = ServedTeacher(rubric, rules, endpoint_of(params), conduct, AnswerCache(store), observer, corrector)
    try:
        yield teacher
    finally:
        teacher.close()
