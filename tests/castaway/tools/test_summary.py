"""The last screen of a build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from castaway.tools.summary import WIDTH, next_commands, reason, summary
from castaway.tools.view import view_of
from flows.steps import Outcome, Step
from tests.castaway.figures import EVALUATE, MOMENTS, save
from tests.shipped import PARAMS


def step(address: str) -> Step:
    return Step(address, (), "cpu", 1.0, ())


def built(root: Path, run: str, head: dict[str, object], *moments: dict[str, object]) -> None:
    save(root / "data" / run / "figures" / "evaluate.json", EVALUATE)
    rows = "".join(f"{json.dumps(row)}\n" for row in (head, *moments))
    save(root / "data" / run / "evaluate" / "final" / "7.jsonl", rows)


def test_the_screen_holds_stages_table_verdict_episode_and_commands(tmp_path: Path) -> None:
    built(tmp_path, "marooned", *MOMENTS)
    why = "changed: ppo.steps, tasks.marooned.correction_sft.limit"
    ended = [
        Outcome(step("base@games"), "Cached"),
        Outcome(step("correction_sft@marooned"), "Ran", 12.34, why),
        Outcome(step("evaluate@marooned"), "Ran", 345.0, "new"),
        Outcome(step("merge@marooned"), "Failed", 1.0, "merge@marooned failed with exit status 1; see its log"),
        Outcome(step("merge@openspiel"), "Skipped", 0.0, "needs ppo@openspiel"),
    ]
    lines = summary(tmp_path, PARAMS, ended, list(next_commands(PARAMS))).split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert lines[:6] == [
        "stage                    state    seconds  why",
        "base@games               Cached",
        "correction_sft@marooned  Ran         12.3  changed: ppo.steps, limit",
        "evaluate@marooned        Ran        345.0  new",
        "merge@marooned           Failed       1.0",
        "merge@openspiel          Skipped           needs ppo@openspiel",
    ]
    assert "marooned  final   80.0 % (75.0 to 85.0)            1.0 %       300" in lines
    assert "marooned: 40.0 % after SFT, 75.0 % after PPO: the intervals are apart." in lines
    assert "marooned: a held-out episode in which `final` succeeded" in lines
    assert lines[lines.index("Next:") + 1].split("  #")[0].startswith("  . .venv/bin/activate")
    assert any(line.startswith("  castaway chat --run strictbot ") for line in lines)


@pytest.mark.parametrize(
    ("message", "room", "told"),
    [
        ("changed: seed, sft.epochs", 30, "changed: seed, epochs"),
        ("changed: castaway/envs/openspiel/sft.py, seed", 32, "changed: ..."),
        ("changed: seed, a/long/path/to/nothing and 4 more", 30, "changed: seed, ..."),
    ],
)
def test_a_reason_keeps_whole_names(message: str, room: int, told: str) -> None:
    assert reason(message, "sft@run", room) == told


def test_a_vote_is_told_with_its_reasons() -> None:
    sailors = {"Alice": {"role": "colonist"}, "Eve": {"role": "traitor"}}
    common = {"piles": {}, "ship": {}, "store": {}, "messages": [], "sailors": sailors, "day": 2, "turn": 7}
    said = {"Alice": {"text": "REASONING: proof Eve\nACTION: CALL_VOTE Eve"}}
    counted = [{"day": 2, "kind": "vote", "text": "The vote ejected Eve."}]
    actions = {"Alice": "CALL_VOTE Eve", "Eve": "VOTE Alice"}
    head = {"task_id": 7, "success": True, "ending": "the traitor was ejected"}
    rows = [head, {**common, "clues": [], "said": said}, {**common, "clues": counted, "actions": actions, "said": {}}]
    assert view_of("marooned").brief(rows) == [
        "The vote on day 2; Eve is the traitor, which the others do not know:",
        "  Alice votes for Eve: proof Eve",
        "  Eve votes for Alice",
        "The vote ejected Eve.",
        "The end: success, the traitor was ejected.",
    ]


def test_an_answer_is_told_with_what_it_deserved() -> None:
    questions = {"tutor_01": {"asked": "is it so", "fact": "it is less", "kind": "good question", "level": 1}}
    head = {"task_id": 7, "success": True, "ending": "1 of 1 as strict as deserved"}
    said = {"tutor_01": {"text": "", "action": "a good question"}}
    rows = [head, {"questions": questions, "said": said}, {"questions": questions, "said": {}}]
    assert view_of("strictbot").brief(rows) == [
        "asked     is it so ?",
        "it is so  it is less",
        "answer    a good question",
        "deserved  help (good question); 1 of 1 as strict as deserved",
    ]
