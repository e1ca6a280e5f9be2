"""The report of a run, from files as the stages write them, opened in a real browser."""

import json
import shutil
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
ROOT = Path(__file__).parents[4]
EPISODES = [("base", 1, False, True)] + [("final", number, number > 3, number % 2 > 0) for number in range(1, 9)]
"""Policy, id, success, and whether its reply is valid."""
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
    write("plots/correction_sft.json", [{"step": 1, "loss": 2.0}])
    write("../answers/plots/base.json", [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 1.0}])
    text = (ROOT / "params.yaml").read_text("utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("\n  strictbot:", "\n  one:"), "utf-8")
    opinions = {
        name: {"valid": name == "rules", "action": "stay", "penalty": -1.0, "remark": HOSTILE}
        for name in ("model", "rules")
    }
    example = {"situation": "Where?", "text": HOSTILE, **opinions}
    disputes = {"another penalty": {"count": 1, "examples": [example]}, HOSTILE: {"count": 2, "examples": [example]}}
    write("ppo/agreement.json", {"judged_by": {"rules": 7, "judge": 9}, "disputes": disputes})
    critiques = [HOSTILE] * 5 + [f"'go {number}' is no action at b{number}." for number in range(3)]
    critiques += [f"rare {'x' * number}" for number in range(1, 21)]
    (tmp_path / "data/one/ppo/corrections.jsonl").write_text(
        "".join(
            json.dumps({"critique": critique, "penalty": -number % 3, "wrong": HOSTILE, "target": "stay"}) + "\n"
            for number, critique in enumerate(critiques)
        )
    )
    for policy, number, success, valid in EPISODES:
        moment = {"state": "xo\nox", "said": {"crew": {"text": HOSTILE, "valid": valid, "action": "WAIT"}}}
        outcome = Outcome(success=success, ending="the end")
        path = tmp_path / f"data/one/evaluate/{policy}/{number}.jsonl"
        write_episode(path, number, "crew", outcome, [moment, {"state": "xx\nxx", "said": {}}])
    return tmp_path


def test_what_the_page_says(root: Path) -> None:
    found = report_of(root, "one")
    players = ("base", "sft", "ppo", "final")
    assert [row[0] for row in found.players] == ["base", "sft", "ppo", "final", "demonstrators", HOSTILE]
    assert found.players[3] == ["final", "75.0 % (70.0 to 80.0)", "75.0 % (70.0 to 80.0)", "1.5", "100"]
    assert [chart.heading for chart in found.learning] == [
        "Success", "KL from the SFT policy, nats per token", "Entropy, nats per token", "Curriculum stage",
    ]  # fmt: skip
    success = found.learning[0].svg
    assert success.count("stroke-dasharray") == 4
    assert [name for name in ("base", "sft", "ppo", "final") if f">{name}</text>" in success] == [*players][:4]
    assert success.count("\N{BLACK UP-POINTING TRIANGLE}") == 1
    # The stages with the same loss are laid over each other; one point is no curve.
    (losses,) = found.losses
    assert losses.heading == "Loss of supervised training, by % of its steps"
    assert (losses.svg.count("<polyline"), ">base</text>" in losses.svg) == (2, True)


def test_success_without_help_is_drawn_over_that_of_training(root: Path) -> None:
    path = root / "data/one/plots/ppo.json"
    rows = json.loads(path.read_text())
    named = ">validation, without help</text>"
    for watched, lines in (((4,), 1), ((4, 8), 2)):
        for row in rows:
            row["validation_success_rate"] = row["step"] / 20 if row["step"] in watched else None
        path.write_text(json.dumps(rows))
        success, *others = (chart.svg for chart in report_of(root, "one").learning)
        # A single point is no curve.
        assert (success.count("<polyline"), named in success) == (lines, lines == 2)
        assert not any(named in other for other in others)


def test_what_the_teacher_said_is_sorted_by_kind(root: Path) -> None:
    found = report_of(root, "one")
    assert [(one.count, one.kind) for one in found.corrections[:3]] == [
        (
            5,
            HOSTILE.replace("\"document.title='taken'\"", "\N{HORIZONTAL ELLIPSIS}").replace(
                "'taken'", "\N{HORIZONTAL ELLIPSIS}"
            ),
        ),
        (3, "\N{HORIZONTAL ELLIPSIS} is no action at \N{HORIZONTAL ELLIPSIS}"),
        (1, "rare x"),
    ]
    assert found.corrections[0].penalty == pytest.approx((0 + 2 + 1 + 0 + 2) / 5)
    assert (found.corrections[1].wrong, found.corrections[1].target) == (HOSTILE, "stay")
    assert found.further == 10
    assert found.judged_by == {"rules": 7, "judge": 9}
    assert [(one.count, one.kind) for one in found.disputes] == [(2, HOSTILE), (1, "another penalty")]
    assert found.disputes[0].examples[0]["model"] == f"not valid, penalty -1, executes stay. {HOSTILE}"
    assert found.disputes[0].examples[0]["rules"].startswith("valid, ")


def test_the_worst_and_the_best_episodes_are_shown(root: Path) -> None:
    titles = [one.title for one in report_of(root, "one").episodes]
    # Failures with invalid replies are the worst, successes without them the best.
    assert [title.partition(":")[0] for title in titles] == [
        "final, episode 2, among its worst", "final, episode 1, among its worst", "final, episode 3, among its worst",
        "final, episode 7, among its best", "final, episode 5, among its best", "final, episode 8, among its best",
        "base, episode 1, among its worst",
    ]  # fmt: skip


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
        assert "<img src=http:" in page.inner_text("#corrections")
        assert HOSTILE in page.inner_text("#disputes")
        assert page.locator("svg").count() == 6
        # By the keyboard alone: to the first episode, open it, and step to its end.
        while not page.evaluate("document.activeElement.matches('#episodes summary')"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 1
        assert HOSTILE in page.inner_text("details[open]") and "xo\nox" in page.inner_text("details[open]")
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowRight")
        shown = page.inner_text("details[open]")
        assert "2 of 2: The end" in shown and "xx\nxx" in shown and HOSTILE not in shown
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert asked == [place.as_uri()]


def test_a_clone_without_the_data_has_figures_and_curves(root: Path) -> None:
    for name in ("ppo", "evaluate"):
        shutil.rmtree(root / "data/one" / name)
    page = report_page(root, "one")
    assert "dvc pull" in page and "75.0 %" in page


def test_a_long_episode_is_cut(root: Path) -> None:
    write_episode(
        root / "data/one/evaluate/final/0.jsonl", 0, "crew", Outcome(success=False, ending="late"),
        [{"said": {"crew": {"text": "word " * 50_000, "valid": False}}}, {"said": {}}],
    )  # fmt: skip
    page = report_page(root, "one")
    assert "[the rest is in the file]" in page and len(page) < 200_000


def test_what_is_missing_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"two/metrics/evaluate\.json is missing; `dvc repro evaluate@two`"):
        report_of(root, "two")
    (root / "data/one/metrics/evaluate.json").write_text('{"sft": {}}')
    with pytest.raises(CastawayError, match=r"evaluate\.json.*success_rate"):
        report_of(root, "one")
