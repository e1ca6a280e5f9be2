"""The page of a replay, clicked through in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from castaway.tools.marooned.view import replay_page
from tests.castaway.tools.browser import chromium
from tests.castaway.tools.marooned.episodes import played

EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>&amp;"
CREW = ("Alice", "Bob", "Charlie", "Diana", "Eve")


def episode() -> list[dict[str, Any]]:
    """Somebody writes markup, somebody talks aloud and in private, and there is a vote."""
    script = {
        (1, 1, "Alice"): f"REASONING: {EVIL}\nACTION: MOVE NORTHEAST",
        (1, 2, "Bob"): "REASONING: talk\nACTION: SAY <b>hello</b> all",
        (1, 2, "Charlie"): "REASONING: talk\nACTION: TELL Diana meet me at the camp",
    } | {(1, 7, name): f"REASONING: vote\nACTION: CALL_VOTE {'Bob' if name == 'Eve' else 'Eve'}" for name in CREW[:2]}
    return played(3, "all", script)


ROWS = episode()
MOMENTS = ROWS[1:]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The episode, opened from a file; anything that it logs, throws or asks the network for is a mistake."""
    path = tmp_path / "episode.html"
    path.write_text(replay_page(ROWS), encoding="utf-8")
    opened = browser.new_page()
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file://") else None)
    opened.goto(path.as_uri())
    yield opened
    assert wrong == []
    opened.close()


def moment(page: Page) -> int:
    return int(page.locator("#slider").input_value())


def places(page: Page) -> dict[str, str]:
    """Where the sailors stand on the maps."""
    figures = page.locator("g.sailor").all()
    return {str(one.get_attribute("data-sailor")): str(one.get_attribute("data-place")) for one in figures}


def told(place: list[Any]) -> str:
    return ",".join(map(str, place))


def test_every_moment_is_shown_as_it_was_saved(page: Page) -> None:
    expect(page.locator("h1")).to_have_text("MAROONED, skiff, episode 3")
    expect(page.locator("#warning")).to_be_hidden()
    expect(page.locator("text.pile")).to_have_count(len(MOMENTS[0]["piles"]))
    for number, saved in enumerate(MOMENTS):
        assert moment(page) == number
        assert places(page) == {n: told(one["place"]) for n, one in saved["sailors"].items() if one["alive"]}
        for name, sailor in saved["sailors"].items():
            expect(page.locator(f".sailor-card[data-sailor={name}]")).to_contain_text(f"energy {sailor['energy']}")
        for part, points in saved["ship"].items():
            expect(page.locator(f".part[data-part={part}]")).to_contain_text(f"{points} %")
        expect(page.locator("#clues li")).to_have_count(len(saved["clues"]))
        for name, said in saved["said"].items():
            box = page.locator(f".action[data-sailor={name}]")
            assert box.locator("pre").text_content() == said["text"]
            expect(box.locator(".verdict")).to_contain_text("valid" if said["valid"] else "not valid")
        page.click("#next")
    assert moment(page) == len(MOMENTS) - 1
    expect(page.locator("#moment")).to_contain_text(f"The {MOMENTS[-1]['winner']} won: {MOMENTS[-1]['ending']}.")
    expect(page.locator("#actions")).to_contain_text("The game is over.")


def test_markup_of_a_model_is_text(page: Page) -> None:
    box = page.locator(".action[data-sailor=Alice]")
    assert box.locator("pre").text_content() == f"REASONING: {EVIL}\nACTION: MOVE NORTHEAST"
    expect(box.locator(".verdict")).to_contain_text("not valid. MOVE is typed MOVE <direction>. Penalty -")
    expect(box.locator(".executed")).to_contain_text(f"Executed: {MOMENTS[0]['said']['Alice']['action']}")
    page.click("#last")
    expect(page.locator("#talk")).to_contain_text("Bob: <b>hello</b> all")
    assert page.locator("#talk b, main img, main script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_one_sailors_knowledge(page: Page) -> None:
    page.select_option("#view", "Diana")
    page.click("#next")
    page.click("#next")
    expect(page.locator("#talk")).to_contain_text("Charlie to Diana alone: meet me at the camp")
    expect(page.locator(".sailor-card[data-sailor=Alice] .role")).to_have_text("?")
    expect(page.locator(".sailor-card[data-sailor=Alice]")).not_to_contain_text("energy")
    expect(page.locator(".sailor-card[data-sailor=Diana]")).to_contain_text("energy")
    assert page.locator(".action").count() == 1
    page.keyboard.press("5")  # the fifth of the crew
    assert page.locator("#view").input_value() == "Eve"
    expect(page.locator("#talk li")).to_have_count(1)  # the private one is not Eve's
    page.keyboard.press("0")
    expect(page.locator("#talk li")).to_have_count(2)


def test_keys_days_play_and_pause(page: Page) -> None:
    page.keyboard.press("End")
    assert moment(page) == len(MOMENTS) - 1
    page.keyboard.press("ArrowLeft")
    assert moment(page) == len(MOMENTS) - 2
    page.keyboard.press("Home")
    last = MOMENTS[-1]["day"]
    page.keyboard.press("PageDown")
    assert MOMENTS[moment(page)]["day"] == MOMENTS[0]["day"] + 1
    page.select_option("#day", str(last))
    assert MOMENTS[moment(page)]["day"] == last and MOMENTS[moment(page) - 1]["day"] < last
    page.keyboard.press("PageUp")
    assert MOMENTS[moment(page)]["day"] == last - 1
    page.click("#first")
    page.select_option("#pace", "120")
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator("#slider")).to_have_value(re.compile(r"[2-9]|\d\d"))
    page.locator("h1").click()
    page.keyboard.press("Space")
    expect(page.locator("#play")).to_have_text("Play")
    page.locator("#slider").fill(str(len(MOMENTS) - 2))
    page.click("#play")
    expect(page.locator("#slider")).to_have_value(str(len(MOMENTS) - 1))
    expect(page.locator("#play")).to_have_text("Play")  # it stops at the end


def test_an_episode_of_other_rules_shows_the_truth_alone(browser: Browser, tmp_path: Path) -> None:
    rows = episode()
    rows[3]["sailors"]["Bob"]["energy"] -= 1
    path = tmp_path / "old.html"
    path.write_text(replay_page(rows), encoding="utf-8")
    opened = browser.new_page()
    opened.goto(path.as_uri())
    expect(opened.locator("#warning")).to_contain_text("played by other rules")
    assert opened.locator("#view option").count() == 1
    opened.click("#last")
    expect(opened.locator("#moment")).to_contain_text("won")
    opened.close()
