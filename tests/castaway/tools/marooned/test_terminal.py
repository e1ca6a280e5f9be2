"""A person at a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pytest
import torch

from castaway.datasets.episodes import read_episode
from castaway.models.tiny import new_model, train_tokenizer
from tests.castaway.rl.small import small_base

ROOT = Path(__file__).parents[4]


class Terminal:
    """`castaway play` with a terminal for its input and output."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "castaway.cli.main", "play", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)

    def until(self, pattern: str, seconds: float = 60) -> str:
        """What is shown up to the pattern."""
        limit = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            readable, _, _ = select.select([self.ours], [], [], max(0.0, limit - time.monotonic()))
            assert readable, f"{pattern!r} did not come after {self.text[-400:]!r}"
            try:
                self.text += os.read(self.ours, 65536).decode()
            except OSError:  # the other end is closed
                assert re.search(pattern, self.text), self.text[-400:]
        shown, self.text = self.text[: found.end()], self.text[found.end() :]
        return shown

    def type(self, line: str) -> None:
        os.write(self.ours, f"{line}\n".encode())


def test_a_game_is_played_saved_and_can_be_watched(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    with Terminal("--sailor", "Bob", "--game", "3", "--save", str(path)) as terminal:
        start = terminal.until("Bob> ")
        assert "# Rules" in start and "You are Bob" in start and "Legal now:" in start
        terminal.type("MOVE NORTHEAST")
        assert "MOVE is typed MOVE <direction>." in terminal.until("Bob> ")
        terminal.type("rules")
        assert "# Rules" in terminal.until("Bob> ")
        terminal.type("SAY hello \x1b]0;evil\x07")
        assert "printable" in terminal.until("Bob> ")
        terminal.type("SAY hello all")
        assert "turn 2" in terminal.until("Bob> ")
        shown = ""
        while "The end" not in shown:
            terminal.type("WAIT")
            shown = terminal.until("Bob> |was the traitor")
        assert terminal.process.wait(20) == 0
    rows = read_episode(path)
    assert rows[1]["said"]["Bob"]["text"].endswith("ACTION: SAY hello all")
    assert "hello all" in str(rows[-1]["messages"])
    command = [sys.executable, "-m", "castaway.cli.main", "replay", str(path), "--root", str(tmp_path)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    assert "hello all" in (tmp_path / "scratch" / f"{path.stem}.html").read_text("utf-8")


def test_a_trained_model_plays_the_others(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["REASONING: a\nACTION: WAIT"] * 9, 300)
    new_model(small_base(), tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with Terminal("--model", str(tmp_path), "--game", "1") as terminal:
        assert "You are Bob" in terminal.until("Bob> ")  # game 1: the second of the crew
        terminal.type("WAIT")
        assert "turn 2" in terminal.until("Bob> ")
        terminal.type("quit")
        assert "left before its end" in terminal.until("error: .*\n")
        assert terminal.process.wait(20) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sailor", "Blackbeard"], "there is no sailor 'Blackbeard': choose one of Alice"),
        (["--scenario", "atlantis"], "there is no scenario 'atlantis'"),
        (["--rendering", "braille"], "choose full or compact"),
        (["--model", "nowhere"], "nowhere holds no model"),
        ([], "the game was left before its end"),  # nobody types
    ],
)
def test_what_cannot_be_played_is_told_in_one_line(arguments: list[str], told: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "castaway.cli.main", "play", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert found.returncode == 2 and told in found.stderr and found.stderr.count("\n") == 1
