"""The report of a run, from files as the stages write them, opened in a real browser."""

import re
import shutil
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import CORRECTIONS, as_reply, write_rows
from castaway.rollout.episodes import write_episode
from castaway.rollout.outcomes import Result, outcomes_path, write_outcomes
from castaway.tasks.environment import Outcome
from castaway.tasks.registry import read_params
from castaway.teacher.agreement import UNUSABLE
from castaway.tools.report import learning_picture, moving_average, report_of, report_page
from tests.castaway.command import castaway
from tests.castaway.figures import EVALUATE, save
from tests.castaway.tools.browser import chromium
from tests.shipped import ROOT

HOSTILE = "<img src=http://example.org/x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
EPISODES = [("base", 1, False, True)] + [("final", number, number > 3, number % 2 > 0) for number in range(1, 9)]
"""Policy, id, success, and whether its reply is valid."""
LARGEST = 3_000_000
"""Bytes of a page at most."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run = tmp_path / "data/one"
    save(run / "figures/evaluate.json", {**EVALUATE, HOSTILE: EVALUATE["sft"], "games": {"nim": {}}})
    save(run / "runs/evaluate.json", {"revision": "0123456789", "began": "2026-01-02T03:04:05+00:00", "stage_key": "k"})
    asking = {"block": 7, "seed": 5, "asked": "2026", "revision": "0", "stage_key": "k", "weights": {}}
    save(run / "metrics/ledger.json", {"asked": [asking]})
    same = {"reference_kl": 0.0, "stage": 1.0}
    steps = [{"step": step, "success_rate": step / 10, "entropy": 1 / step, **same} for step in range(1, 9)]
    steps[4]["sft_loss"] = 0.3
    save(run / "plots/ppo.json", steps)
    save(run / "plots/sft.json", [{"step": 1, "loss": 2.0}, {"step": 9, "loss": 0.5}])
    save(run / "plots/correction_sft.json", [{"step": 1, "loss": 2.0}])
    save(tmp_path / "data/answers/plots/base.json", [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 1.0}])
    text = (ROOT / "params.yaml").read_text("utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("\n  strictbot:", "\n  one:"), "utf-8")
    opinion = {"action": "stay", "penalty": -1.0, "remark": HOSTILE}
    opinions = {name: {"valid": name == "rules", **opinion} for name in ("model", "rules")}
    example = {"situation": "Where?", "text": HOSTILE, **opinions}
    disputes = {"another penalty": {"count": 1, "examples": [example]}, HOSTILE: {"count": 2, "examples": [example]}}
    save(run / "ppo/agreement.json", {"judged_by": {"rules": 7, "judge": 9, UNUSABLE: 1}, "disputes": disputes})
    critiques = [HOSTILE] * 5 + [f"'go {number}' is no action at b{number}." for number in range(3)]
    critiques += [f"rare {'x' * number}" for number in range(1, 21)]
    right = {"prompt": [], "completion": as_reply("stay"), "chosen": as_reply("stay")}
    row = {**right, "rejected": as_reply(HOSTILE), "kept": "", "source": "rules"}
    rows = [{**row, "critique": critique, "penalty": -number % 3} for number, critique in enumerate(critiques)]
    write_rows(run / "ppo/corrections.jsonl", rows, CORRECTIONS)
    for policy, number, success, valid in EPISODES:
        moment = {"state": "xo\nox", "said": {"crew": {"text": HOSTILE, "valid": valid, "action": "WAIT"}}}
        outcome = Outcome(success=success, ending="the end")
        path = run / "evaluate" / policy / f"{number}.jsonl"
        write_episode(path, number, "crew", outcome, [moment, {"state": "xx\nxx", "said": {}}])
    # Of nine episodes the final policy loses one and gains three.
    wins = {"sft": (1, 2, 3), "final": (2, 3, 4, 5, 6)}
    played = [Result(name, one, "one", one in wins[name], 1, 0) for name in wins for one in range(1, 10)]
    write_outcomes(outcomes_path(tmp_path, "one"), played)
    return tmp_path


def test_what_the_page_says(root: Path) -> None:
    report = report_of(root, "one")
    assert [row[0] for row in report["players"]] == ["base", "sft", "ppo", "final", "demonstrators", HOSTILE]
    assert report["players"][3] == ["final", "80.0 % (75.0 to 85.0)", "1.0 % (-4.0 to 6.0)", "12.3", "300"]
    assert list(report["learning"]) == [
        "Success", "KL from the SFT policy, nats per token", "Entropy, nats per token",
    ]  # fmt: skip
    success = report["learning"]["Success"]
    assert all(f">{name}</text>" in success for name in ("base", "sft", "ppo", "final"))
    assert ">training, mean of 1 steps</text>" in success
    steps = [(1.0, 0.0), (2.0, 1.0), (4.0, 0.5), (5.0, 0.0)]
    assert moving_average(steps, 2) == [(1.0, 0.0), (2.0, 0.5), (4.0, 0.75), (5.0, 0.25)]
    kinds = dict(zip(("lost", "failed by both", "won by both", "gained"), ("1", "3", "2", "3"), strict=True))
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", report["changes"])
    assert [text for text in texts if text in kinds] == list(kinds) and texts[-5:-1] == list(kinds.values())
    # The stages with the same loss are laid over each other; one point is no curve.
    ((heading, losses),) = report["losses"].items()
    assert heading == "Loss of supervised training, by % of its steps"
    assert [name for name in ("base", "SFT", "correction-SFT") if f">{name}</text>" in losses] == ["base", "SFT"]
    assert report["verdict"].startswith("40.0 % after SFT, 75.0 % after PPO: the intervals are apart.")
    assert report["origin"].startswith("commit 0123456, 2026-01-02 03:04, seed 5. Block 7 of the held-out ids")


def test_what_the_teacher_said_is_sorted_by_kind(root: Path) -> None:
    report = report_of(root, "one")
    assert [one["count"] for one in report["corrections"][:3]] == [5, 3, 1]
    assert report["corrections"][1]["kind"] == "\N{HORIZONTAL ELLIPSIS} is no action at \N{HORIZONTAL ELLIPSIS}"
    assert report["corrections"][0]["penalty"] == pytest.approx((0 + 2 + 1 + 0 + 2) / 5)
    assert (report["corrections"][1]["wrong"], report["corrections"][1]["target"]) == (HOSTILE, "stay")
    assert report["further"] == 10
    assert report["judged_by"] == {"rules": 7, "judge": 9, UNUSABLE: 1} and report["unusable_share"] == 0.1
    assert "10.0 % of the served teacher's answers could not be used." in report_page(root, "one")
    assert [(kind, one["count"]) for kind, one in report["disputes"].items()] == [(HOSTILE, 2), ("another penalty", 1)]


def test_the_worst_and_the_best_episodes_are_shown(root: Path) -> None:
    titles = list(report_of(root, "one")["episodes"])
    # Failures with invalid replies are the worst, successes without them the best.
    assert [title.partition(":")[0] for title in titles] == [
        *(f"final, episode {number}, one of its worst" for number in (2, 1, 3)),
        *(f"final, episode {number}, one of its best" for number in (7, 5, 8)),
        "base, episode 1, one of its worst",
    ]


def test_it_is_one_page_that_fits_and_runs_nothing(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    told = castaway("report", "one", "--to", str(place), "--root", str(root))
    assert (told.exit_code, told.output) == (0, f"{place}\n")
    assert place.stat().st_size < LARGEST
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 380, "height": 800})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(place.as_uri())
        assert page.title() == "one"
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        assert "<img src=http:" in page.inner_text("#corrections")
        assert page.locator("svg").count() == 5
        page.locator("#disputes summary").first.click()
        assert f"Teacher: not valid, penalty -1, executes stay. {HOSTILE}" in page.inner_text("#disputes")
        page.locator("#disputes summary").first.click()
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
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert asked == [place.as_uri()]


def test_a_long_episode_is_cut(root: Path) -> None:
    write_episode(
        root / "data/one/evaluate/final/0.jsonl", 0, "crew", Outcome(success=False, ending="late"),
        [{"said": {"crew": {"text": "word " * 50_000, "valid": False}}}, {"said": {}}],
    )  # fmt: skip
    page = report_page(root, "one")
    assert "[the rest is in the file]" in page and len(page) < 200_000
    # A clone without the data has figures and curves.
    for name in ("ppo", "evaluate"):
        shutil.rmtree(root / "data/one" / name)
    page = report_page(root, "one")
    assert "dvc pull" in page and "80.0 %" in page


def test_what_is_missing_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"no figures of evaluate@two in .*; `dvc repro evaluate@two`"):
        report_of(root, "two")
    (root / "data/one/figures/evaluate.json").write_text('{"sft": {}}')
    with pytest.raises(CastawayError, match=r"evaluate\.json.*success_rate"):
        report_of(root, "one")
    with pytest.raises(CastawayError, match="has an evaluation; `dvc repro` builds them"):
        learning_picture(root / "data", read_params(root / "params.yaml"))
