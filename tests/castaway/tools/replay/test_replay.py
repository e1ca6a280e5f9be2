"""Episodes of every task, as `evaluate` saves them, are stepped through in a real browser."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from castaway.datasets.episodes import Row, read_episode, write_episode
from castaway.rl.rollout import Generation, play_episodes
from castaway.tasks.environment import Prompt
from castaway.tasks.registry import read_params, task_of
from castaway.tools.replay.moments import replay_of
from castaway.tools.replay.page import episode_page
from tests.castaway.tools.marooned.replay.browser import chromium

ROOT = Path(__file__).parents[4]
TRAINING_ID = 900_000_000


def saved(run: str, place: Path) -> list[Row]:
    """An episode of the demonstrators."""
    task = task_of(read_params(ROOT / "params.yaml"), run)
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
    place.write_text(episode_page(rows), encoding="utf-8")
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
    replay = replay_of(json.loads(json.dumps(rows)))
    first, last = replay.moments
    assert (first.title, first.state, first.valid) == ("Turn 1", "state:\n..\n.x\nhistory: 1, 2", False)
    assert first.happened == "x: go\\u001b[2J\n    -> not valid. no Penalty -1. Executed: STAY"
    assert last.state.startswith("state:\nx.\n.x\nhistory: 0, 1, ") and last.state.endswith("59, ...")
    assert last.happened == "failure, lost"


def test_nothing_is_needed_but_the_header() -> None:
    assert "episode 7" in episode_page([{"task_id": 7}]).lower()
