"""The data of a task whose teacher is served: what it wrote comes first, and the same answers give the same bytes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from castaway.config.errors import CastawayError
from castaway.config.sections import DatasetParams, TeacherParams
from castaway.datasets.jsonl import DEMONSTRATIONS, PAIRS, read_rows
from castaway.datasets.scripted import play_scripted
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.verdict import TeacherOutage
from stages.context import Context
from stages.dataset import run
from tests.castaway.rl.small import student
from tests.castaway.teacher.writing import serving
from tests.shipped import PARAMS

COUNT = 20
DISCUSSIONS = 6
"""In two whole games of MAROONED, of three days each."""


def data(root: Path, url: str, name: str = "strictbot", demonstrations: int = 50, **teacher: Any) -> dict[str, Any]:
    """The stage's figures, with its files under `root`."""
    shipped = PARAMS.for_run(name)
    served = {"kind": "openai", "url": url, "model": "good", "patience_seconds": 0.2, **teacher}
    small = {"episodes": 2, "demonstrations": demonstrations, "pairs": 90, "held_out_pairs": 30, "written": COUNT}
    own = {
        "teacher": TeacherParams.model_validate({**shipped.teacher.model_dump(), **served}),
        "dataset": DatasetParams.model_validate({**shipped.dataset.model_dump(), **small}),
    }
    params = shipped.model_copy(update=own)
    actor, tokenizer = student()
    tokenizer.save(root / "data/answers/base")
    actor.causal.config.save_pretrained(root / "data/answers/base")
    context = Context(root=root, params=params, run=name, base="answers", stage="dataset", scratch=root / "scratch")
    context.output.mkdir(parents=True, exist_ok=True)
    return run(context)


def test_what_is_written_comes_before_what_is_played(tmp_path: Path) -> None:
    with serving() as server:
        figures = data(tmp_path, server.url)
    folder = tmp_path / "data/strictbot/dataset"
    rows = read_rows(folder / "demonstrations.jsonl", DEMONSTRATIONS)
    pairs = read_rows(folder / "pairs.jsonl", PAIRS)
    asked = [row["prompt"][-1]["content"] for row in rows]
    assert figures["written"] == COUNT
    assert (len(rows), len(pairs)) == (50, 90)
    assert [" ship number " in text for text in asked] == [True] * COUNT + [False] * 30
    assert sum(" ship number " in pair["prompt"][-1]["content"] for pair in pairs) == 3 * COUNT
    assert f"a served teacher wrote {COUNT} situations" in (folder / "README.md").read_text()


def test_episodes_are_those_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[list[int]] = []

    def recorded(environment: Any, seat: str, ids: list[int], make_player: Any) -> Any:
        played.append(ids)
        return play_scripted(environment, seat, ids, make_player)

    monkeypatch.setattr("stages.dataset.play_scripted", recorded)
    with serving() as server:
        data(tmp_path, server.url, "marooned", kind="rules")
    assert played == [[201_000_000, 201_000_001], [401_000_000]]


def test_a_teacher_that_fails_stops_the_stage_which_then_goes_on(tmp_path: Path) -> None:
    with serving(fails_after=7) as server, pytest.raises(TeacherOutage):
        data(tmp_path / "one", server.url, deadline_seconds=2.0)
    with serving() as server:
        data(tmp_path / "one", server.url)
        assert server.asked.total() == COUNT - 7
        data(tmp_path / "two", server.url)
    names = ["demonstrations.jsonl", "pairs.jsonl", "held_out_pairs.jsonl", "README.md", "split.json"]
    one, two = (tmp_path / name / "data/strictbot/dataset" for name in ("one", "two"))
    assert [(one / name).read_bytes() for name in names] == [(two / name).read_bytes() for name in names]


def test_a_task_that_asks_for_nothing_and_the_rules_have_nothing_written(tmp_path: Path) -> None:
    with serving() as server:
        figures = data(tmp_path, server.url, "marooned")
        assert data(tmp_path, server.url, kind="rules")["written"] == 0
    assert not server.asked
    assert [figures[name] for name in ("demonstrations", "written", "pairs", "held_out_pairs")] == [50, 0, 90, 30]
    card = (tmp_path / "data/strictbot/dataset/README.md").read_text()
    assert "Played by scripts; no person and no model wrote any of it." in card
    assert json.loads((tmp_path / "data/strictbot/dataset/split.json").read_text())["train"][0] == 0


@pytest.mark.parametrize("count", [20, 120])
def test_balanced_demonstrations_show_each_situation_alike_as_far_as_they_go(tmp_path: Path, count: int) -> None:
    with serving() as server:
        data(tmp_path, server.url, "marooned", count, kind="rules")
    rows = read_rows(tmp_path / "data/marooned/dataset/demonstrations.jsonl", DEMONSTRATIONS)
    kinds = Counter((row["role"], "discussion" in row["prompt"][-1]["content"]) for row in rows)
    assert kinds.total() == count
    rare, votes, works = kinds["traitor", True], kinds["colonist", True], kinds["traitor", False]
    assert (rare, votes, works) == ((5, 5, 5) if count == 20 else (DISCUSSIONS, 4 * DISCUSSIONS, 36))
    assert {*rows["role"][:20]} == {"colonist", "traitor"}  # in random order


def test_more_demonstrations_than_turns_are_refused(tmp_path: Path) -> None:
    with serving() as server, pytest.raises(CastawayError, match=r"strictbot: 2 episodes have \d+ turns") as refused:
        data(tmp_path, server.url, demonstrations=5000, kind="rules")
    assert str(refused.value).endswith("asks for 5000; raise dataset.episodes")


def test_prompts_that_are_longer_than_the_model_reads_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatTokenizer, "prompt", lambda *_: [1] * 500)
    monkeypatch.setattr(ChatTokenizer, "reply", lambda *_: [1] * 13)
    with serving() as server, pytest.raises(CastawayError, match="longest row has 513 tokens, and the model reads 512"):
        data(tmp_path, server.url)
