"""The pictures of the README: whole, the same each time, and honest about what is missing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.images import draw_images
from castaway.tools.images.dag import dag_of, dag_picture, dependencies, in_order
from castaway.tools.images.learning import learning_picture, read_panels
from castaway.tools.images.screenshot import chromium_path, episode_to_show, replay_picture, scripted_episode
from tests.castaway.figures import policy, save
from tests.castaway.tools.marooned.replay.episodes import played

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
STAGES = ["base", "dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]


def words(picture: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def build(folder: Path, run: str, rates: dict[int, float], sft: float = 0.2, final: float = 0.6) -> None:
    """What the picture reads of a run."""
    save(folder / "data" / run / "metrics" / "evaluate.json", {
        "base": policy(0.1), "sft": policy(sft), "ppo": policy(0.5), "final": policy(final)
    })  # fmt: skip
    rows = [{"step": step, "success_rate": rate} for step, rate in rates.items()]
    save(folder / "data" / run / "plots" / "ppo.json", rows)


# The stages ----------------------------------------------------------------------------------------------------------


def test_every_stage_is_in_the_picture_in_an_order_in_which_they_can_run() -> None:
    picture = dag_of(ROOT / "dvc.yaml")
    assert [one for one in words(picture) if one in STAGES] == STAGES
    assert "(marooned, openspiel, strictbot)" in words(picture)
    assert len(picture) < 40_000
    assert dag_of(ROOT / "dvc.yaml") == picture


def test_every_dependency_is_a_dot() -> None:
    reads = dependencies(read_yaml(ROOT / "dvc.yaml"))
    assert reads["base"] == [] and reads["correction_sft"] == ["base", "sft", "ppo"]
    picture = ElementTree.fromstring(dag_of(ROOT / "dvc.yaml"))
    assert len(list(picture.iter(f"{SVG}circle"))) == sum(map(len, reads.values()))
    assert len(list(picture.iter(f"{SVG}polygon"))) == len(STAGES) - 1


def test_no_line_runs_through_a_box_of_another_stage() -> None:
    picture = ElementTree.fromstring(dag_of(ROOT / "dvc.yaml"))

    def place(node: Any, *names: str) -> list[float]:
        return [float(node.get(name)) for name in names]

    boxes = [place(node, "x", "y", "width", "height") for node in picture.iter(f"{SVG}rect")]
    for node in picture.iter(f"{SVG}line"):
        x1, y1, x2, y2 = place(node, "x1", "y1", "x2", "y2")
        assert not [1 for x, y, w, h in boxes if x1 < x + w and x2 > x and y1 < y + h and y2 > y]


def test_stages_of_ones_own_are_drawn_too() -> None:
    stages = {
        "second": {"do": {"deps": ["data/${key}/first", "castaway/x.py"]}},
        "first": {"cmd": "x", "deps": ["data/${item.base}/elsewhere"]},
    }
    assert in_order(dependencies({"stages": stages})) == ["first", "second"]
    assert {"first", "second", "base: once for each of none"} <= set(words(dag_picture({"stages": stages})))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "dvc.yaml does not exist"),
        ("stages: {}\n", "dvc.yaml cannot be drawn: it holds no stages"),
        ("[]\n", "dvc.yaml cannot be drawn: it holds no stages"),
        ("stages: {a: {deps: ['data/${key}/b']}, b: {deps: ['data/${key}/a']}}\n", "in a circle"),
    ],
)
def test_a_dvc_yaml_that_cannot_be_drawn_is_told(tmp_path: Path, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / "dvc.yaml").write_text(text)
    with pytest.raises(CastawayError, match=re.escape(told)):
        dag_of(tmp_path / "dvc.yaml")


# Learning ------------------------------------------------------------------------------------------------------------


def test_a_panel_for_each_run_that_was_built(tmp_path: Path) -> None:
    build(tmp_path, "lights", {1: 0.0, 2: 0.5, 4: 1.0})
    build(tmp_path, "boats", {1: 0.25}, final=0.8)
    panels = read_panels(tmp_path, ["lights", "not_built", "boats"])
    assert [(panel.run, panel.episodes) for panel in panels] == [("lights", 300), ("boats", 300)]
    assert panels[0].curve == [(1, 0.0), (2, 0.5), (4, 1.0)]
    assert panels[1].held_out["final"] == pytest.approx((0.8, 0.75, 0.85))
    picture = learning_picture(panels)
    assert {"lights", "boats", "300 held-out episodes", "PPO step", "success", "100 %"} <= set(words(picture))
    lines = {"PPO, training episodes, with help", "PPO, validation, without help"}
    assert lines | {"base, held out", "sft, held out", "final, held out"} <= set(words(picture))
    assert "not_built" not in picture and picture == learning_picture(panels)


def test_a_step_without_a_finished_episode_is_a_gap(tmp_path: Path) -> None:
    build(tmp_path, "lights", {1: 0.0, 2: 0.5, 4: 1.0})
    picture = ElementTree.fromstring(learning_picture(read_panels(tmp_path, ["lights"])))
    assert str(next(picture.iter(f"{SVG}path")).get("d")).count("M") == 1
    # One more is in the legend.
    assert len(list(picture.iter(f"{SVG}circle"))) == 3 + 1


def test_what_the_policy_does_without_help_is_a_ring_at_each_validation(tmp_path: Path) -> None:
    build(tmp_path, "lights", {1: 0.0, 2: 0.5, 3: 1.0})
    path = tmp_path / "data" / "lights" / "plots" / "ppo.json"
    rows = json.loads(path.read_text())
    save(path, [{**row, "validation_success_rate": {2: 0.25, 3: 0.75}.get(row["step"])} for row in rows])
    (panel,) = read_panels(tmp_path, ["lights"])
    assert panel.alone == [(2, 0.25), (3, 0.75)] and panel.curve[-1] == (3, 1.0)
    circles = list(ElementTree.fromstring(learning_picture([panel])).iter(f"{SVG}circle"))
    assert [one.get("fill") == "none" for one in circles] == [False] * 3 + [True] * 2 + [True]


def test_the_runs_of_the_repository() -> None:
    panels = read_panels(ROOT, list(read_params(ROOT / "params.yaml").tasks))
    assert len(learning_picture(panels)) < 40_000
    assert learning_picture(panels * 2).count("PPO step</text>") == 2 * len(panels)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("metrics/evaluate.json", None, "there is no data/RUN/metrics/evaluate.json in "),
        ("metrics/evaluate.json", {"final": {}}, "the success rate of base is missing"),
        ("plots/ppo.json", None, "ppo.json does not exist; `dvc repro` builds it"),
        ("plots/ppo.json", [{"step": 1}], "success_rate is missing in all steps"),
        ("plots/ppo.json", [{"success_rate": 1}], "ppo.json is not what the stage writes"),
        ("plots/ppo.json", 3, "ppo.json is not what the stage writes"),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, file: str, content: Any, told: str) -> None:
    build(tmp_path, "lights", {1: 0.5})
    path = tmp_path / "data" / "lights" / file
    path.unlink()
    if content is not None:
        path.write_text(json.dumps(content))
    with pytest.raises(CastawayError, match=re.escape(told)):
        read_panels(tmp_path, ["lights"])


# The replay ----------------------------------------------------------------------------------------------------------


def test_a_won_episode_is_shown_first_and_a_scripted_one_where_none_was_saved(tmp_path: Path) -> None:
    assert episode_to_show(tmp_path)[0]["scripted"] is True
    for number in (3, 4):
        rows = played(number, "all", {})
        rows[0]["success"] = number == 4
        lines = [json.dumps(row) for row in rows]
        (tmp_path / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    assert episode_to_show(tmp_path)[0]["task_id"] == 4
    (tmp_path / "4.jsonl").unlink()
    assert episode_to_show(tmp_path)[0]["task_id"] == 3


def test_all_three_are_written(tmp_path: Path) -> None:
    written = list(draw_images(ROOT, read_params(ROOT / "params.yaml"), tmp_path / "images"))
    assert [path.name for path in written] == ["dag.svg", "learning.svg", "replay.png"]
    assert written[2].read_bytes().startswith(b"\x89PNG") and written[2].stat().st_size < 150_000


def test_without_playwright_or_a_browser_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scripted_episode()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "playwright.sync_api", None)
        with pytest.raises(CastawayError, match=r"^playwright is missing.*castaway\[dev\]'$"):
            replay_picture(rows)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CastawayError, match="is installed; run `make browser` as root"):
        chromium_path()


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "images").write_text("a file")
    with pytest.raises(CastawayError, match="cannot be written"):
        next(draw_images(ROOT, read_params(ROOT / "params.yaml"), tmp_path / "images"))
