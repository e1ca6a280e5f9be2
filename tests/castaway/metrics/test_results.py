"""Metrics become the tables that they should, and what is missing is named."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from castaway.datasets.episodes import read_episode, write_episode
from castaway.envs.marooned.scenario import load_scenario
from castaway.errors import CastawayError
from castaway.metrics.cells import share
from castaway.metrics.comparisons import ablation_table, hints_table
from castaway.metrics.headline import headline_table
from castaway.metrics.markdown import percent, replace_between, table
from castaway.metrics.results import (
    games_table,
    intervals_apart,
    results_table,
    reward_model_line,
    run_report,
    seed_header,
    seed_row,
    shares_table,
    unseen_seeds_table,
    unseen_table,
)
from castaway.tasks.environment import Outcome
from castaway.tools.marooned.rulebook import constants_table, pay_table
from castaway.tools.transcript import clean, episode_text
from tests.castaway.figures import EVALUATE, MOMENTS, REWARD_MODEL, policy, save

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results.md"
RULES = ROOT / "docs" / "marooned.md"


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_shares_as_people_read_them() -> None:
    assert percent(0.4567) == "45.7 %"
    assert share(EVALUATE["final"], "success_rate") == "80.0 % (75.0 to 85.0)"


def test_a_row_for_each_policy_in_the_order_of_the_pipeline() -> None:
    header, _, *rows = cells(results_table(EVALUATE, "crew"))
    assert header == [
        "policy",
        "invalid replies",
        "crew success (95 %)",
        "traitor success (95 %)",
        "mean return",
        "episodes",
    ]
    assert [row[0] for row in rows] == ["base", "sft", "ppo", "final", "demonstrators"]
    assert rows[3] == ["final", "1.0 %", "80.0 % (75.0 to 85.0)", "50.0 % (45.0 to 55.0)", "12.3", "300 + 100"]


def test_other_players_come_last_and_games_have_a_table_of_their_own() -> None:
    games = {"nim": {"final": {**policy(0.8), "gap_closed": 0.5, "gap_closed_low": 0.4, "gap_closed_high": 0.6}}}
    games["nim"] |= {"random": policy(0.5), "mcts-100": policy(0.9)}
    gap = {"gap_closed": 0.6, "gap_closed_low": 0.5, "gap_closed_high": 0.7}
    evaluate = {"mcts-100": policy(0.95), "random": policy(0.45), "final": {**policy(0.7), **gap}, "games": games}
    assert [row[0] for row in cells(results_table(evaluate, "crew"))[2:]] == ["final", "mcts-100", "random"]
    header, _, nim, everything = cells(games_table(evaluate, "crew").split("\n\n")[1])
    assert header[:4] == ["game", "random, crew", "final, crew", "mcts-100, crew"]
    assert header[4:] == ["random, traitor", "final, traitor", "mcts-100, traitor", "gap closed"]
    assert nim[:4] == ["nim", "50.0 %", "80.0 %", "90.0 %"] and nim[-1] == "50.0 % (40.0 to 60.0)"
    assert everything[:4] == ["all", "45.0 %", "70.0 %", "95.0 %"] and everything[-1] == "60.0 % (50.0 to 70.0)"


def test_a_relative_advantage_is_the_last_column() -> None:
    own = {"gap_closed": 0.5, "gap_closed_low": 0.4, "gap_closed_high": 0.6, "relative_advantage": 0.25}
    players = {"random": policy(0.5), "mcts-100": policy(0.9), "final": {**policy(0.8), **own}}
    header, _, nim, everything = cells(games_table({**players, "games": {"nim": players}}).split("\n\n")[1])
    assert header[-2:] == ["gap closed", "relative advantage"]
    assert nim[-1] == everything[-1] == "+0.25"


def test_a_task_with_one_seat_has_no_column_for_a_second() -> None:
    single = {name: value for name, value in policy(0.8).items() if not name.startswith("traitor")}
    header, _, row = cells(results_table({"final": single}))
    assert header == ["policy", "invalid replies", "success (95 %)", "mean return", "episodes"]
    assert row[-1] == "300"


def test_shares_of_the_tasks_own_have_a_table() -> None:
    assert shares_table(EVALUATE) == []
    own = {"toxic_rate": 0.01, "toxic_rate_low": 0.0, "toxic_rate_high": 0.02, "mean_words": 7.0}
    (found,) = shares_table({name: {**policy(0.5), **own} for name in ("final", "sft", "sft_best_of_4")})
    header, _, *rows = cells(found)
    assert header == ["policy", "toxic rate"]
    assert rows == [["sft", "1.0 % (0.0 to 2.0)"], ["final", "1.0 % (0.0 to 2.0)"]]


def test_variants_that_training_never_played_have_a_table() -> None:
    assert unseen_table(EVALUATE) == []
    unseen = {f"unseen_{name}": value for name, value in policy(0.6).items()}
    (found,) = unseen_table({"random": {**policy(0.5), **unseen}, "games": {}, "final": {**policy(0.8), **unseen}})
    header, _, *rows = cells(found.split("\n\n")[1])
    assert header == ["player", "invalid replies", "success (95 %)", "episodes"]
    assert [row[0] for row in rows] == ["final", "random"]
    assert rows[0][2:] == ["60.0 % (55.0 to 65.0)", "300"]


def test_each_seed_says_how_far_it_is_from_sft_and_chance_where_training_never_was() -> None:
    assert unseen_seeds_table([{"seed": 1, "evaluate": EVALUATE}]) == []
    rates = {"final": 0.8, "sft": 0.72, "random": 0.5, "expert": 0.9}
    evaluate = {name: {f"unseen_{key}": value for key, value in policy(rate).items()} for name, rate in rates.items()}
    (found,) = unseen_seeds_table([{"seed": seed, "evaluate": evaluate} for seed in (1, 3)])
    header, _, *rows = cells(found.split("\n\n")[1])
    assert header == ["seed", *(f"{name} (95 %)" for name in rates), "final, sft", "final, random"]
    assert rows[1] == [
        "3",
        *(f"{100 * r:.1f} % ({100 * r - 5:.1f} to {100 * r + 5:.1f})" for r in rates.values()),
        "overlap",
        "apart",
    ]
    assert len(rows) == 2


def test_the_reward_model_stands_beside_both_baselines() -> None:
    line = reward_model_line(REWARD_MODEL)
    assert "93.0 % (90.0 to 95.0) of 400" in line and "answers 50.0 %" in line and "prompt 52.0 %" in line


def test_a_seed_row_has_the_gap_in_points() -> None:
    row = seed_row({"seed": 2, "evaluate": EVALUATE, "reward_model": REWARD_MODEL})
    assert len(row) == len(seed_header("crew"))
    assert row[0] == "2" and "+40.0 points" in row and "apart" in row
    assert row[1].startswith("80.0") and row[2].startswith("40.0") and row[3].startswith("50.0")


def test_intervals_that_touch_are_not_apart() -> None:
    assert intervals_apart(policy(0.8), policy(0.4)) and intervals_apart(policy(0.4), policy(0.8))
    assert not intervals_apart(policy(0.5), policy(0.45))
    one = {"success_rate_low": 0.5, "success_rate_high": 0.6}
    assert not intervals_apart(one, {"success_rate_low": 0.6, "success_rate_high": 0.7})


def test_tables_are_aligned() -> None:
    assert table(["a", "bc"], [["def", "1"]]) == "| a   | bc |\n| --- | -: |\n| def |  1 |"
    assert table(["a", "bc"], [["def", "1"]], figures=False).splitlines()[2] == "| def | 1  |"


def test_the_headline_has_three_rows_a_run(tmp_path: Path) -> None:
    for run in ("marooned", "strictbot"):
        save(tmp_path / run / "evaluate.json", EVALUATE)
    header, _, *rows = cells(headline_table({run: tmp_path / run for run in ("strictbot", "marooned")}))
    assert header == ["run", "policy", "success (95 %)", "invalid replies", "episodes"]
    assert [row[:2] for row in rows] == [
        [run, policy] for run in ("strictbot", "marooned") for policy in ("sft", "ppo", "final")
    ]
    assert rows[-1] == ["marooned", "final", "80.0 % (75.0 to 85.0)", "1.0 %", "300"]


@pytest.mark.parametrize("content", ["{", "3", "{}", '{"sft": {}, "ppo": {}, "final": {}}'])
def test_a_headline_of_a_broken_file_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "evaluate.json").write_text(content, encoding="utf-8")
    with pytest.raises(CastawayError, match=r"evaluate\.json") as caught:
        headline_table({"marooned": tmp_path})
    assert "\n" not in str(caught.value)


def test_the_report_of_a_run_reads_what_is_there(tmp_path: Path) -> None:
    save(tmp_path / "evaluate.json", EVALUATE)
    assert "reward model" not in run_report(tmp_path)
    save(tmp_path / "reward_model.json", REWARD_MODEL)
    for seed in (10, 2, 1):
        save(tmp_path / "seeds" / f"{seed}.json", {"seed": seed, "evaluate": EVALUATE, "reward_model": REWARD_MODEL})
    text = run_report(tmp_path, "crew")
    assert "The reward model ranks" in text
    assert [row[0] for row in cells(text)[-3:]] == ["1", "2", "10"]


def test_stages_are_told_in_the_order_in_which_they_ran(tmp_path: Path) -> None:
    save(tmp_path / "metrics" / "evaluate.json", EVALUATE)
    late = {"stage": "ppo@one", "seconds": 90.0, "peak_memory_gib": 2.26, "device": "CPU", "revision": "0123456789"}
    early = {
        "stage": "sft@one",
        "seconds": 6,
        "device": "CPU",
        "revision": "abcdef012345+changes",
        "began": "2026-01-01",
    }
    save(tmp_path / "runs" / "ppo.json", {**late, "began": "2026-01-02"})
    save(tmp_path / "runs" / "sft.json", early)
    assert cells(run_report(tmp_path / "metrics"))[-2:] == [
        ["sft", "0.1", "-", "CPU", "abcdef0"],
        ["ppo", "1.5", "2.3", "CPU", "0123456"],
    ]
    save(tmp_path / "runs" / "sft.json", {"stage": "sft@one"})
    with pytest.raises(CastawayError, match=r"seconds is missing|began is missing"):
        run_report(tmp_path / "metrics")


@pytest.mark.parametrize("content", ['{"final": {}}', "{}", "[]", "{", "3", '{"final": 3}', '{"final": null}'])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "evaluate.json").write_text(content, encoding="utf-8")
    with pytest.raises(CastawayError, match=r"evaluate\.json") as caught:
        run_report(tmp_path)
    assert "\n" not in str(caught.value)


def test_only_what_stands_between_the_markers_changes() -> None:
    text = "before\n<!-- results -->\nold\n<!-- /results -->\nafter \\1\n"
    once = replace_between(text, "results", "new \\1")
    assert once == "before\n<!-- results -->\nnew \\1\n<!-- /results -->\nafter \\1\n"
    assert replace_between(once, "results", "new \\1") == once


@pytest.mark.parametrize(
    "text", ["", "<!-- results -->\n", "<!-- /results --><!-- results -->\n", "<!-- results -->\n" * 2]
)
def test_markers_that_are_not_there(text: str) -> None:
    with pytest.raises(CastawayError, match="expected one line"):
        replace_between(text, "results", "new")


def test_the_documents_have_the_markers() -> None:
    replace_between(README.read_text("utf-8"), "headline", "x")
    replace_between(RESULTS.read_text("utf-8"), "results", "x")
    replace_between(RESULTS.read_text("utf-8"), "smollm2-bfloat16", "x")
    replace_between(RULES.read_text("utf-8"), "rules", "x")


def test_the_rules_are_those_that_are_played() -> None:
    scenarios = [load_scenario(name) for name in ("classic", "skiff")]
    text = RULES.read_text("utf-8")
    for part in (constants_table(scenarios), pay_table(scenarios[0])):
        assert part in text, "docs/marooned.md is old: run `castaway rules --write docs/marooned.md`"


def test_an_episode_as_text() -> None:
    assert episode_text(MOMENTS).splitlines() == [
        "Episode 1000000000, played by the model: crew",
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


def test_text_of_a_model_cannot_command_a_terminal() -> None:
    assert clean("a\x1b]0;x\x07\n\u202eb") == "a\\u001b]0;x\\u0007\n\\u202eb"


@pytest.mark.parametrize("text", ["", "no json\n", "[1]\n", '{"task_id": 1}\n{"day": 1}\n', "{}\n"])
def test_what_is_no_episode_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "episode.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CastawayError, match="episode"):
        read_episode(path)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@example(text="a\u2028b\x85c\u2029\r\n\x1c<b>")
@settings(deadline=None, max_examples=60)
def test_an_episode_is_read_as_it_was_written_whatever_a_model_wrote(text: str) -> None:
    said = {"Alice": {"text": text, "action": "WAIT", "valid": False}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "7.jsonl"
        write_episode(path, 7, "crew", Outcome(False, text), [{"said": said}])
        head, moment = read_episode(path)
    assert head == {"task_id": 7, "seat": "crew", "success": False, "ending": text}
    assert moment == {"said": said}


def test_an_ablation_has_a_row_for_each_variant_and_a_column_for_each_seed() -> None:
    def figures(success: float) -> dict[str, float | str]:
        ends = {f"success_rate_{end}": success + shift for end, shift in (("low", -0.1), ("high", 0.1))}
        return {"success_rate": success, **ends, "invalid_rate": 0.02, "episodes": 100, "revision": "abc1234"}

    found = {"as shipped": {"1": figures(0.6), "2": figures(0.8)}, "without SFT passes": {"2": figures(0.5)}}
    text = ablation_table(found, "crew")
    assert text.startswith("PPO without one of its parts, 100 held-out episodes each, at commit abc1234:\n\n| ppo ")
    shipped, without = cells(text)[4:]
    assert shipped == ["as shipped", "60.0 % (50.0 to 70.0)", "80.0 % (70.0 to 90.0)", "70.0 %", "2.0 %"]
    assert without[1:3] == ["-", "50.0 % (40.0 to 60.0)"]


def test_a_hidden_hint_has_a_row_with_each_seed_and_the_means() -> None:
    def figures(before: float, after: float) -> dict[str, object]:
        return {"episodes": 9, "kind": "nim", "revision": "abc1234", "sft": policy(before), "ppo": policy(after)}

    found = {"all shown": {"1": figures(0.2, 0.6), "2": figures(0.4, 0.7)}, "heaps": {"2": figures(0.1, 0.3)}}
    text = hints_table(found, "crew")
    assert "9 validation episodes of nim each, at commit abc1234:" in text
    shown, hidden = cells(text)[4:]
    after = [share(policy(success), "success_rate") for success in (0.6, 0.7, 0.3)]
    assert shown[:5] == ["all shown", *after[:2], "65.0 %", "30.0 %"]
    assert hidden == ["heaps", "-", after[2], "-", "-", "-"]
    with pytest.raises(CastawayError, match="ppo is missing"):
        hints_table({"all shown": {"1": {"sft": policy(0.2)}}})
