"""The curriculum moves when a full window says so, and not before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.rl.curriculum import Curriculum
from castaway.tasks.environment import CurriculumStage


def stages(threshold: float = 0.6, floor: float = 0.3, window: int = 10, count: int = 3) -> list[CurriculumStage]:
    return [CurriculumStage(f"stage {k}", range(100), ("seat",), threshold, floor, window) for k in range(count)]


def after(results: str, curriculum: Curriculum | None = None) -> Curriculum:
    """A curriculum that was told of successes (1) and failures (0) of the stage it was in."""
    curriculum = curriculum or Curriculum(stages())
    for result in results:
        curriculum.report(curriculum.number, result == "1")
    return curriculum


@pytest.mark.parametrize(
    ("results", "number", "rate"),
    [
        ("", 0, None),
        ("111111111", 0, 1.0),  # nine of ten say nothing yet
        ("1111110000", 1, None),  # six of ten, and a new window
        ("0000111111", 1, None),
        ("1111100000", 0, 0.5),
        ("0000011111" + "1", 1, None),  # the first one has left the window
        ("1111111111" + "0010100000", 0, None),  # two of ten is under the floor
        ("1111111111" + "0010100100", 1, 0.3),  # three of ten is not
        ("1" * 30, 2, 1.0),  # nothing comes after the last one
        ("0" * 30, 0, 0.0),  # and nothing before the first
    ],
)
def test_where_results_lead(results: str, number: int, rate: float | None) -> None:
    curriculum = after(results)
    assert (curriculum.number, curriculum.success_rate) == (number, rate)
    assert curriculum.stage.name == f"stage {number}"


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 20), st.floats(0, 1), st.floats(0, 1))
def test_every_move_is_earned_by_a_whole_window(results: list[bool], window: int, one: float, other: float) -> None:
    curriculum = Curriculum(stages(max(one, other), min(one, other), window))
    since: list[bool] = []
    for success in results:
        before = curriculum.number
        curriculum.report(before, success)
        since.append(success)
        if curriculum.number != before:
            share = sum(since[-window:]) / window
            assert len(since) >= window
            assert share >= max(one, other) if curriculum.number > before else share < min(one, other)
            assert abs(curriculum.number - before) == 1 and curriculum.success_rate is None
            since = []


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=100))
def test_episodes_of_another_stage_tell_nothing(results: list[tuple[int, bool]]) -> None:
    told, heard = Curriculum(stages(window=3)), Curriculum(stages(window=3))
    for number, success in results:
        if number == heard.number:
            heard.report(number, success)
        told.report(number, success)
        assert told.state() == heard.state()


@given(st.text("01", max_size=60), st.text("01", max_size=60))
def test_it_goes_on_where_it_stopped(first: str, then: str) -> None:
    whole, stopped = after(first), Curriculum(stages())
    stopped.load_state(whole.state())
    assert after(then, stopped).state() == after(then, whole).state()


@pytest.mark.parametrize(
    "wrong",
    [
        CurriculumStage("x", range(0), ("seat",)),
        CurriculumStage("x", range(5), ()),
        CurriculumStage("x", range(5), ("seat",), threshold=0.2, floor=0.3),
    ],
)
def test_a_stage_that_cannot_be_played_is_refused(wrong: CurriculumStage) -> None:
    with pytest.raises(ValueError, match="the stage x has no ids, no seats, or a floor above its threshold"):
        Curriculum([*stages(), wrong])


def test_a_curriculum_has_stages() -> None:
    with pytest.raises(ValueError, match="needs a stage"):
        Curriculum([])
    with pytest.raises(ValueError, match="the state is in stage 2, and there are 2 stages"):
        Curriculum(stages(count=2)).load_state({"stage": 2, "window": []})
