"""Metrics become the tables that they should, and what is missing is named."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
from castaway.envs.marooned.scenario import load_scenario
from castaway.metrics.experiments import experiment_table
from castaway.metrics.markdown import replace_between, share
from castaway.metrics.results import headline_table, intervals_apart, results_table, run_report
from castaway.rollout.episodes import read_episode, write_episode
from castaway.tasks.environment import Outcome
from castaway.tools.marooned.rulebook import constants_table, pay_table
from castaway.tools.transcript import episode_text
from tests.castaway.command import refused
from tests.castaway.figures import EVALUATE, MOMENTS, REWARD_MODEL, policy, save

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "marooned.md"


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_a_row_for_each_policy_in_the_order_of_the_pipeline() -> None:
    header, _, *rows = cells(results_table(EVALUATE, "crew"))
    seats = ["crew success (95 %)", "traitor success (95 %)"]
    assert header == ["policy", "invalid replies", *seats, "mean return", "episodes"]
    assert [row[0] for row in rows] == ["base", "sft", "ppo", "final", "demonstrators"]
    assert rows[3] == ["final", "1.0 %", "80.0 % (75.0 to 85.0)", "50.0 % (45.0 to 55.0)", "12.3", "300 + 100"]


def test_intervals_that_touch_are_not_apart() -> None:
    assert intervals_apart(policy(0.8), policy(0.4)) and intervals_apart(policy(0.4), policy(0.8))
    assert not intervals_apart(policy(0.5), policy(0.45))
    one = {"success_rate_low": 0.5, "success_rate_high": 0.6}
    assert not intervals_apart(one, {"success_rate_low": 0.6, "success_rate_high": 0.7})


EXPERIMENT = {
    "about": "Other seeds",
    "figure": "success_rate",
    "rows": {
        "as shipped": {
            str(n): {"revision": "abc1234", "block": n, "policies": {"sft": policy(0.2), "ppo": policy(n / 20)}}
            for n in (10, 2, 6)
        },
        "without SFT passes": {"2": {"revision": "def5678", "block": 2, "policies": {"ppo": policy(0.3)}}},
    },
}


def test_seeds_are_folded_into_a_mean_with_its_interval() -> None:
    heading, _, *rows = experiment_table(EXPERIMENT).splitlines()
    assert heading == "Other seeds: success rate, held-out blocks 2, 6, 10, at commit abc1234, def5678."
    header, _, sft, ppo, without = cells("\n".join(rows))
    assert header == ["variant", "policy", "seed 2", "seed 6", "seed 10", "mean (95 %)", "above as shipped"]
    assert sft[-2:] == ["20.0 % (20.0 to 20.0)", "-"]
    # 0.1, 0.3 and 0.5: the standard deviation is 0.2, and t is 4.303 with two degrees of freedom. No share is below 0.
    assert ppo[2:-1] == [*(share(policy(rate), "success_rate") for rate in (0.1, 0.3, 0.5)), "30.0 % (0.0 to 79.7)"]
    # The mean of some of the seeds would say something else.
    assert without[2:] == ["30.0 % (25.0 to 35.0)", "-", "-", "-", "-"]
    assert "| 90.0 %" not in experiment_table(EXPERIMENT, "invalid_rate")
    with pytest.raises(CastawayError, match="there is no luck of any policy"):
        experiment_table(EXPERIMENT, "luck")


def test_rows_are_compared_seed_by_seed() -> None:
    """Differences of 10, 20 and 30 points: the standard deviation is 10."""

    def row(*rates: float, name: str = "ppo") -> dict[str, object]:
        policies = [{name: policy(rate), "sft": policy(0.1)} for rate in rates]
        return {str(n): {"revision": "a", "policies": one} for n, one in enumerate(policies)}

    variants = {"first": row(0.2, 0.4, 0.6), "second": row(0.3, 0.6, 0.9)}
    table = cells(experiment_table({**EXPERIMENT, "rows": variants}).partition("\n\n")[2])
    assert [one[-1] for one in table if one[:2] == ["second", "ppo"]] == ["+20.0 (-4.8 to +44.8)"]
    table = cells(experiment_table({**EXPERIMENT, "rows": {"first": row(0.2, 0.3, 0.4)}}).partition("\n\n")[2])
    assert table[0][-1] == "above sft"
    assert [one[-1] for one in table if one[1] == "ppo"] == ["+20.0 (-4.8 to +44.8)"]


def test_the_report_of_a_run_reads_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "one"
    save(folder / "figures" / "evaluate.json", EVALUATE)
    assert "reward model" not in run_report(tmp_path, "one")
    save(folder / "figures" / "reward_model.json", REWARD_MODEL)
    save(folder / "experiments" / "seeds.json", EXPERIMENT)
    text = run_report(tmp_path, "one", "crew")
    assert "The reward model ranks 93.0 % (90.0 to 95.0) of 400 held-out pairs rightly" in text
    assert "#### seeds\n\nOther seeds: success rate" in text


def test_stages_are_told_in_the_order_in_which_they_ran(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "one"
    save(folder / "figures" / "evaluate.json", EVALUATE)
    late = {"stage": "ppo@one", "seconds": 90.0, "peak_memory_gib": 2.26, "device": "CPU", "revision": "0123456789"}
    early = {"stage": "sft@one", "seconds": 6, "device": "CPU", "revision": "abcdef012345+changes"}
    save(folder / "runs" / "ppo.json", {**late, "began": "2026-01-02"})
    save(folder / "runs" / "sft.json", {**early, "began": "2026-01-01"})
    assert cells(run_report(tmp_path, "one"))[-2:] == [
        ["sft", "0.1", "-", "CPU", "abcdef0"],
        ["ppo", "1.5", "2.3", "CPU", "0123456"],
    ]
    save(folder / "runs" / "sft.json", {"stage": "sft@one"})
    with pytest.raises(CastawayError, match=r"seconds is missing|began is missing"):
        run_report(tmp_path, "one")


@pytest.mark.parametrize(
    "content", ["{}", "[]", "{", '{"final": {}}', '{"final": null}', '{"sft": {}, "ppo": {}, "final": {}}']
)
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    save(tmp_path / "data/one/figures/evaluate.json", content)
    for told in (refused(run_report, tmp_path, "one"), refused(headline_table, tmp_path, ["one"])):
        assert re.search(r"evaluate(\.json|@one)", told)


def test_only_what_stands_between_the_markers_changes() -> None:
    once = replace_between("before\n<!-- results -->\nold\n<!-- /results -->\nafter \\1\n", "results", "new \\1")
    assert once == "before\n<!-- results -->\nnew \\1\n<!-- /results -->\nafter \\1\n"
    assert replace_between(once, "results", "new \\1") == once


@pytest.mark.parametrize(
    "text", ["", "<!-- results -->\n", "<!-- /results --><!-- results -->\n", "<!-- results -->\n" * 2]
)
def test_markers_that_are_not_there(text: str) -> None:
    with pytest.raises(CastawayError, match="expected one line"):
        replace_between(text, "results", "new")


def test_the_rules_are_those_that_are_played() -> None:
    scenarios = [load_scenario(name) for name in ("classic", "skiff")]
    text = RULES.read_text("utf-8")
    for part in (constants_table(scenarios), pay_table(scenarios[0])):
        assert part in text, "docs/marooned.md is old: run `castaway marooned rules --write docs/marooned.md`"


def test_an_episode_as_text() -> None:
    assert episode_text(MOMENTS).splitlines() == [
        "Episode 1000000000, seat of the model: crew",
        "",
        "Day 1, turn 2",
        "  Alice (colonist): REASONING: go",
        "      ACTION: MOVE NORTHEAST\\u001b[2J",
        "      -> not valid. MOVE is typed MOVE <direction>. Penalty -0.75. Executed: WAIT",
        "  Eve (traitor) by script: SAY hello",
        "  * Bob died of hunger.",
        "  * Eve says: hello",
        "  * The ship: hull 34 %.",
        "",
        "The end: success, the ship was finished.",
    ]


@pytest.mark.parametrize("text", ["", "no json\n", "[1]\n", '{"task_id": 1}\n{"day": 1}\n', "{}\n"])
def test_what_is_no_episode_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "episode.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CastawayError, match="episode"):
        read_episode(path)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@example(text="a\u2028b\x85c\u2029\r\n\x1c<b>")
@settings(max_examples=60)
def test_an_episode_is_read_as_it_was_written_whatever_a_model_wrote(text: str) -> None:
    said = {"Alice": {"text": text, "action": "WAIT", "valid": False}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "7.jsonl"
        write_episode(path, 7, "crew", Outcome(False, text), [{"said": said}])
        head, moment = read_episode(path)
    assert head == {"task_id": 7, "seat": "crew", "success": False, "ending": text}
    assert moment == {"said": said}
