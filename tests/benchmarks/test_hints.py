"""A hidden hint is gone from every prompt, nothing else is, and no model reads it."""

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from benchmarks import hints, variants
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from tests.castaway.rl.small import shipped

EACH = [(task, name) for task, known in hints.HINTS.items() for name in known]


@cache
def prompts(task: str) -> list[str]:
    """What the demonstrators are told in some validation episodes."""
    return list(told(task_of(shipped(), task)))


def told(task: Task[object]) -> Iterator[str]:
    environment = task.make()
    for task_id in range(variants.FIRST_ID, variants.FIRST_ID + 60):
        environment.reset(task_id, task.scripted_seat)
        player = task.demonstrator(Random(task_id), 0.25)
        while not environment.done:
            shown = environment.prompts()
            yield from (message["content"] for prompt in shown for message in prompt.messages)
            environment.step({prompt.agent: player(prompt).action for prompt in shown})


@pytest.mark.parametrize(("task", "name"), EACH)
def test_it_is_hidden_and_the_rest_is_not(task: str, name: str) -> None:
    hint = hints.HINTS[task][name]
    changed = [(text, hints.hide(hint, text)) for text in prompts(task) if hints.hide(hint, text) != text]
    assert changed
    for shown, hidden in changed:
        before, after = shown.split(), hidden.split()
        assert hints.hide(hint, hidden) == hidden
        if task == "openspiel":
            assert after[: before.index("piles") + 1] == before[: before.index("piles") + 1]
            assert hidden.split("\n", 1)[1] == shown.split("\n", 1)[1]
        else:
            different = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
            start = before.index(name)
            assert all(start < at <= start + 3 for at in different)


def test_heaps_become_piles() -> None:
    hint = hints.HINTS["openspiel"]["heaps"]
    shown = "piles a1 b1 b2 c4 c1 d4\nmoves 1: a0 2: b2"
    assert hints.hide(hint, shown) == "piles a1 b3 c5 d4\nmoves 1: a0 2: b2"


def test_no_model_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(ChatTokenizer, "__init__", lambda *_: None)
    monkeypatch.setattr(ChatTokenizer, "_render", lambda _, messages, prompt: read.append(messages[0]["content"]) or "")
    monkeypatch.setattr(ChatTokenizer, "_encode", lambda *_: [])
    tokenizer = ChatTokenizer(None)  # type: ignore[arg-type]
    asked = [{"role": "user", "content": "you well lurks Eve ready hull"}]
    with hints.hiding(hints.HINTS["marooned"]["lurks"]):
        tokenizer.prompt(asked)
    tokenizer.prompt(asked)
    assert read == ["you well lurks nobody ready hull", "you well lurks Eve ready hull"]


@pytest.mark.parametrize(("words", "told"), [(["--hint", "heaps"], "no hint heaps"), (["--task", "chess"], "chess")])
def test_what_there_is_not(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "require_commit", lambda: None)
    assert hints.main(["1", *words]) == 2
    assert told in capsys.readouterr().err
