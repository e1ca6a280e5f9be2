"""The figures of an evaluation, from a few episodes."""

from castaway.rollout.outcomes import situation_figures, text_of
from castaway.rollout.trajectory import Episode, Trajectory
from castaway.tasks.environment import Message, Outcome
from tests.castaway.rl.small import turn_of


def asked(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


def episode(seat: str, success: bool, *texts: str) -> Episode:
    turns = [turn_of(messages=asked(text)) for text in texts]
    return Episode(1, seat, [Trajectory(1, "Ann", "player", turns)], Outcome(success, {}))


def test_success_is_split_by_whether_training_showed_every_situation() -> None:
    episodes = [
        episode("first", True, "a", "b"),
        episode("first", False, "b"),
        episode("first", False, "a", "new"),
        episode("second", True, "new"),
    ]
    figures = situation_figures(episodes, "first", {text_of(asked("a")), text_of(asked("b"))})
    known, new = (figures[f"success_in_{kind}_situations"] for kind in ("known", "new"))
    assert (known, new, figures["episodes_in_new_situations"]) == (0.5, 0.0, 1)
    assert situation_figures(episodes, "first", set()) == {}
