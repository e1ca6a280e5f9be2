"""The report of a run, from files as the stages write them, opened in a real browser."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from castaway.cli.main import app
from castaway.datasets.episodes import write_episode
from castaway.errors import CastawayError
from castaway.tasks.environment import Outcome
from castaway.tools.report.content import report_of
from castaway.tools.report.page import report_page
from tests.castaway.tools.marooned.replay.browser import chromium

HOSTILE = "<img src=http://example.org/x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
LARGEST = 3_000_000
"""Bytes of a page at most."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    def write(path: str, content: object) -> None:
        place = tmp_path / "data/one" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content))

    def rates(rate: float) -> dict[str, float]:
        one: dict[str, float] = {"episodes": 100, "mean_return": 1.5}
        for name in ("success_rate", "invalid_rate"):
            one |= {name: rate, f"{name}_low": rate - 0.05, f"{name}_high": rate + 0.05}
        return one

    players = {"base": 0.1, "sft": 0.5, "ppo": 0.7, "final": 0.75, "demonstrators": 0.6, HOSTILE: 0.4}
    write("metrics/evaluate.json", {**{name: rates(rate) for name, rate in players.items()}, "games": {"nim": {}}})
    steps = [
        {"step": step, "success_rate": step / 10, "entropy": 1 / step, "reference_kl": 0.0, "stage": 1.0}
        for step in range(1, 9)
    ]
    steps[4]["sft_loss"] = 0.3
    write("plots/ppo.json", steps)
    write("plots/sft.json", [{"step": 1, "loss": 2.0}, {"step": 9, "loss": 0.5}])
    write("ppo/agreement.json", {"judged_by": {"rules": 7}, "disputes": {"legal": 2}})
    critiques = [HOSTILE] * 5 + ["too long"] * 2 + [f"rare {number}" for number in range(20)]
    (tmp_path / "data/one/ppo/corrections.jsonl").write_text(
        "".join(json.dumps({"critique": critique}) + "\n" for critique in critiques)
    )
    for policy, number, success in (("base", 1, False), ("final", 1, True), ("final", 2, False)):
        moment = {"said": {"crew": {"text": HOSTILE, "valid": False, "critique": "no", "action": "WAIT"}}}
        outcome = Outcome(success=success, ending="the end")
        path = tmp_path / f"data/one/evaluate/{policy}/{number}.jsonl"
        write_episode(path, number, "crew", outcome, [moment, {"said": {}}])
    return tmp_path


def test_what_the_page_says(root: Path) -> None:
    found = report_of(root, "one")
    assert [row[0] for row in found.players] == ["base", "sft", "ppo", "final", "demonstrators", HOSTILE]
    assert found.players[3] == ["final", "75.0 % (70.0 to 80.0)", "75.0 % (70.0 to 80.0)", "1.5", "100"]
    assert [chart.heading for chart in found.learning] == [
        "Success of training episodes", "KL from the SFT policy, nats per token", "Entropy, nats per token",
        "Curriculum stage",
    ]  # fmt: skip
    assert "sft, held out" in found.learning[0].svg and "final, held out" in found.learning[0].svg
    assert found.learning[0].svg.count("\N{BLACK UP-POINTING TRIANGLE}") == 1
    assert [chart.heading for chart in found.losses] == ["Loss of SFT"]
    assert found.corrections[:2] == [(5, HOSTILE), (2, "too long")]
    assert found.further == 10
    assert found.agreement == {"judged by: rules": 7, "disputes: legal": 2}
    # The failure of the final policy first: it is what one wants to see.
    assert [one.title.partition(",")[0] for one in found.episodes] == ["final", "final", "base"]
    assert [one.success for one in found.episodes] == [False, True, False]


@pytest.mark.parametrize("width", [380, 1280])
def test_it_is_one_page_that_fits_and_runs_nothing(root: Path, tmp_path: Path, width: int) -> None:
    place = tmp_path / "page.html"
    told = CliRunner().invoke(app, ["report", "one", "--to", str(place), "--root", str(root)])
    assert (told.exit_code, told.output) == (0, f"{place}\n")
    assert place.stat().st_size < LARGEST
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(place.as_uri())
        assert page.title() == "one"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert HOSTILE in page.inner_text("#corrections")
        assert page.locator("svg").count() == 6
        # By the keyboard alone: four links, the table, then the episodes.
        for _ in range(6):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 1
        assert HOSTILE in page.inner_text("details[open]")
        assert asked == [place.as_uri()]


def test_a_clone_without_the_data_has_figures_and_curves(root: Path) -> None:
    for name in ("ppo/corrections.jsonl", "ppo/agreement.json", "evaluate/base/1.jsonl"):
        (root / "data/one" / name).unlink()
    for path in (root / "data/one/evaluate/final").iterdir():
        path.unlink()
    page = report_page(root, "one")
    assert "dvc pull" in page and "75.0 %" in page


def test_a_long_episode_is_cut(root: Path) -> None:
    write_episode(
        root / "data/one/evaluate/final/3.jsonl", 3, "crew", Outcome(success=False, ending="late"),
        [{"said": {"crew": {"text": "word " * 50_000, "valid": True}}}, {"said": {}}],
    )  # fmt: skip
    page = report_page(root, "one")
    assert "[the rest is in 3.jsonl]" in page and len(page) < 200_000


def test_what_is_missing_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"two/metrics/evaluate\.json is missing; `dvc repro evaluate@two`"):
        report_of(root, "two")
    (root / "data/one/metrics/evaluate.json").write_text('{"sft": {}}')
    with pytest.raises(CastawayError, match=r"evaluate\.json.*success_rate"):
        report_of(root, "one")
