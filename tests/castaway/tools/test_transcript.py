"""Episodes whose snapshots hold anything under the keys that the shipped tasks use."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from castaway.datasets.episodes import Row, read_episode, write_episode
from castaway.tasks.environment import Outcome
from castaway.tools.replay.moments import replay_of
from castaway.tools.replay.page import episode_page
from castaway.tools.report.episodes import shown_episodes
from castaway.tools.transcript import episode_text

KEYS = ("actions", "clues", "day", "messages", "questions", "sailors", "ship", "turn")
SHAPES = (
    None, True, 3, 0.5, "A1", "", [], ["hello"], [3, None], [["x"]], [{"text": 5}], [{"speaker": None, "text": []}],
    {}, {"x": 3}, {"x": "hello"}, {"x": ["hello"]}, {"x": {"role": 3, "asked": "hello", "kind": 3, "fact": None}},
)  # fmt: skip


def episode(before: Mapping[str, object], after: Mapping[str, object]) -> list[Row]:
    """An episode of one turn, in which the agent `x` goes."""
    said = {"x": {"text": "go", "valid": True, "action": "go", "penalty": 0.0, "critique": ""}}
    head = {"task_id": 7, "seat": "x", "success": True, "ending": "won"}
    rows: list[Row] = json.loads(json.dumps([head, {**before, "said": said}, {**after, "said": {}}]))
    return rows


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_any_shape_is_no_error(key: str) -> None:
    states = [{}, *({key: shape} for shape in SHAPES)]
    for before, after in product(states, states):
        rows = episode(before, after)
        assert "x: go" in episode_text(rows)
        assert "x: go" in replay_of(rows).moments[0].happened


OTHER: tuple[dict[str, object], dict[str, object]] = (
    {
        "messages": ["hi"],
        "actions": ["up", "down"],
        "questions": ["why"],
        "ship": "A1",
        "clues": 3,
        "day": [1],
        "turn": 2,
    },
    {
        "messages": ["hi", "you\x1b", {"to": "x"}],
        "actions": {"y": ["up", 1]},
        "ship": {"bow": [1]},
        "clues": [{"text": 4}],
    },
)


def test_what_another_shape_is_shown_as() -> None:
    happened = ["x: go", "    -> valid.", 'y by script: ["up", 1]', "* 4", "* you\\u001b", '* {"to": "x"}']
    assert episode_text(episode(*OTHER)).split("\n")[2:-2] == ["Turn 2", *(f"  {line}" for line in happened)]
    moment = replay_of(episode(*OTHER)).moments[0]
    assert moment.happened.split("\n") == happened
    assert (moment.title, moment.state.split("\n")) == (
        "Turn 2",
        ["messages: hi", "actions: up, down", "questions: why", "ship: A1", "clues: 3", "day: 1"],
    )


def test_such_an_episode_is_in_pages_too(tmp_path: Path) -> None:
    _, *moments = episode(*OTHER)
    path = tmp_path / "final" / "7.jsonl"
    write_episode(path, 7, "x", Outcome(success=True, ending="won"), moments)
    assert "actions: up, down" in episode_page(read_episode(path))
    (shown,) = shown_episodes(tmp_path)
    assert "actions: up, down" in shown.replay.moments[0].state


def test_a_heading_cannot_command_a_terminal() -> None:
    assert "Turn \\u001b[2j" in episode_text(episode({"turn": "\x1b[2J"}, {}))
