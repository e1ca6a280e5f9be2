"""Episodes as text and as pages: of every task, stepped through in a real browser, and with snapshots of any shape."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random

import pytest

from castaway.rollout.episodes import Row, read_episode, write_episode
from castaway.rollout.play import Generation, play_episodes
from castaway.tasks.environment import Prompt
from castaway.tasks.registry import task_of
from castaway.tools.transcript import episode_text
from castaway.tools.view import TaskView, replay_of
from tests.castaway.tools.browser import chromium
from tests.shipped import PARAMS

TRAINING_ID = 900_000_000


def saved(run: str, place: Path) -> list[Row]:
    """An episode of the demonstrators."""
    task = task_of(PARAMS, run)
    play = task.demonstrator(Random(1), 0.3)

    def answer(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation(str(play(prompt))) for prompt in prompts]

    tasks = [(TRAINING_ID, task.evaluation_seats[0])]
    (episode,) = play_episodes(task.make, tasks, answer, teacher=None, parallel=1, keep_snapshots=1)
    write_episode(place, episode.task_id, episode.seat, episode.outcome, episode.snapshots)
    return read_episode(place)


@pytest.mark.parametrize("run", ["marooned", "openspiel", "strictbot"])
def test_an_episode_of_each_task_is_stepped_through(run: str, tmp_path: Path) -> None:
    rows = saved(run, tmp_path / "episode.jsonl")
    replay = replay_of(rows)
    assert len(replay.moments) == len(rows) - 1
    place = tmp_path / "page.html"
    place.write_text(TaskView(run).page(rows), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 380, "height": 700})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(place.as_uri())
        page.keyboard.press("Tab")
        for number, moment in enumerate(replay.moments, start=1):
            # One moment is seen, and it is the one of its number.
            (shown,) = [one for one in page.locator(".moment").all() if one.is_visible()]
            assert shown.inner_text().startswith(f"{number} of {len(replay.moments)}: {moment.title}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 380
            page.keyboard.press("ArrowRight")
        assert asked == [place.as_uri()]


def test_what_a_moment_shows() -> None:
    said = {"x": {"text": "go\x1b[2J", "valid": False, "critique": "no", "action": "STAY", "penalty": -1.0}}
    rows: list[Row] = [
        {"task_id": 7, "seat": "x", "success": False, "ending": "lost"},
        {"state": "..\n.x", "turn": 1, "history": [1, 2], "cards": {"hidden": 1}, "said": said},
        {"state": "x.\n.x", "turn": 2, "history": list(range(100)), "said": {}},
    ]
    first, last = replay_of(json.loads(json.dumps(rows))).moments
    assert (first.title, first.state, first.valid) == ("Turn 1", "state:\n..\n.x\nhistory: 1, 2", False)
    assert first.happened == "x: go\\u001b[2J\n    -> not valid. no Penalty -1. Executed: STAY"
    assert last.state.startswith("state:\nx.\n.x\nhistory: 0, 1, ") and last.state.endswith("59, ...")
    assert last.happened == "failure, lost"


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


def test_a_position_that_is_drawn_stands_before_the_move_and_at_the_end() -> None:
    lines = episode_text(episode({"state": ".x\no."}, {"state": "xx\no."})).splitlines()
    assert lines.index("  .x") < lines.index("  x: go") < lines.index("  xx") < len(lines) - 1


def test_a_heading_cannot_command_a_terminal() -> None:
    assert "Turn \\u001b[2j" in episode_text(episode({"turn": "\x1b[2J"}, {}))
