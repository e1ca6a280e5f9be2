"""A small screenshot of the page of a replay, made by Chromium under Playwright."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from castaway.datasets.episodes import Row, read_episode
from castaway.errors import CastawayError
from castaway.tools.marooned.replay.page import replay_page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTH, HEIGHT = 1200, 800
"""The window; the picture has the shape of the others."""
SHARE = 0.75
"""How far into the episode the picture is taken."""
GAME, SCRIPTED = 3, "Played by scripts."
"""The training id that is played where no episode was saved, and what the page then says instead of a model's name."""


def chromium_path() -> str:
    """The browser of this machine.

    Raises:
        CastawayError: there is none.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise CastawayError(f"none of {', '.join(NAMES)} is installed; run `make browser` as root, or install Chromium")
    return path


def replay_picture(rows: Sequence[Row]) -> bytes:
    """A PNG of the page of a saved episode of MAROONED, in its middle.

    Raises:
        CastawayError: the rows are no such episode, or Playwright or Chromium is missing.
    """
    page = replay_page(rows)
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise CastawayError("playwright is missing, which takes the picture: pip install 'castaway[dev]'") from None
    moment = round(SHARE * (len(rows) - 2))
    try:
        with tempfile.TemporaryDirectory(prefix="castaway-") as folder, sync_playwright() as playwright:
            path = Path(folder) / "episode.html"
            path.write_text(page, "utf-8")
            browser = playwright.chromium.launch(executable_path=chromium_path(), headless=True, args=list(FLAGS))
            opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            opened.goto(path.as_uri())
            picture = _picture(opened, moment, SCRIPTED if rows[0].get("scripted") else "")
            browser.close()
    except Error as error:
        reason = str(error).partition("\n")[0]
        raise CastawayError(f"Chromium could not take the picture of the replay: {reason}") from None
    return picture


def _picture(page: Any, moment: int, remark: str) -> bytes:
    """The page at a moment, with nobody on the way between two places; `remark` stands for the line about the model."""
    page.locator("#slider").fill(str(moment))
    page.locator("h1").click()
    if remark:
        page.locator("#result").evaluate("(node, text) => { node.textContent = text }", remark)
    picture: bytes = page.screenshot(type="png", animations="disabled")
    return picture


def episode_to_show(folder: Path) -> list[Row]:
    """The first episode that was saved there and that the crew won, or the first one; else one that scripts play."""
    episodes = [read_episode(path) for path in sorted(folder.glob("*.jsonl"))]
    won = [rows for rows in episodes if rows[0].get("success")]
    return next(iter([*won, *episodes]), None) or scripted_episode()


def scripted_episode() -> list[Row]:
    """An episode of `skiff` that the experts of MAROONED play, judged by its rules."""
    from castaway.envs.marooned.environment import MaroonedEnvironment
    from castaway.envs.marooned.players import expert
    from castaway.rl.rollout import Generation, play_episodes
    from castaway.tasks.environment import Prompt
    from castaway.teacher.rules import RulesTeacher

    def answers(prompts: Sequence[Prompt]) -> list[Generation]:
        return [Generation(str(expert(prompt))) for prompt in prompts]

    environment = MaroonedEnvironment("skiff", "compact")
    teacher = RulesTeacher(environment.rules)
    (episode,) = play_episodes(lambda: environment, [(GAME, "all")], answers, teacher, keep_snapshots=1)
    outcome = episode.outcome
    head: Any = {"task_id": GAME, "seat": "all", "success": outcome.success, "ending": outcome.ending, "scripted": True}
    return [json.loads(json.dumps(row, sort_keys=True)) for row in [head, *episode.snapshots]]
