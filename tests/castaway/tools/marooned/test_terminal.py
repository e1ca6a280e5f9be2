"""A person plays a sailor."""

from __future__ import annotations

from pathlib import Path

import pytest

from castaway.rollout.episodes import read_episode
from tests.castaway.command import castaway, told
from tests.families import write_family


def test_a_game_is_played_saved_and_can_be_watched(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    lines = ["MOVE NORTHEAST", "rules", "SAY hello \x1b]0;evil\x07", "SAY hello all", *["WAIT"] * 100]
    typed = "".join(f"{line}\n" for line in lines)
    game = castaway("marooned", "play", "--sailor", "Bob", "--game", "3", "--save", str(path), typed=typed)
    assert game.exit_code == 0, game.stderr
    start, refused, rules, evil, *rest = game.stdout.split("Bob> ")
    assert "# Rules" in start and "You are Bob" in start and "Legal now:" in start
    assert "MOVE is typed MOVE <direction>." in refused and "# Rules" in rules and "printable" in evil
    assert "turn 2" in rest[0] and "was the traitor" in rest[-1]
    rows = read_episode(path)
    assert rows[1]["said"]["Bob"]["text"].endswith("ACTION: SAY hello all")
    assert "hello all" in str(rows[-1]["messages"])
    assert castaway("replay", str(path), "--root", str(tmp_path)).exit_code == 0
    assert "hello all" in (tmp_path / "scratch" / f"{path.stem}.html").read_text("utf-8")


def test_a_trained_model_plays_the_others(tmp_path: Path) -> None:
    write_family("llama", tmp_path, ["REASONING: a\nACTION: WAIT"] * 9)
    result = castaway("marooned", "play", "--model", str(tmp_path), "--game", "1", typed="WAIT\nquit\n")
    # Game 1: the second of the crew.
    assert "You are Bob" in result.stdout and "turn 2" in result.stdout
    assert result.exit_code == 2 and "error: the game was left before its end\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--sailor", "Blackbeard"], "there is no sailor 'Blackbeard': choose one of Alice"),
        (["--rendering", "braille"], "'braille' is not one of 'full', 'compact'"),
        ([], "the game was left before its end"),  # nobody types
    ],
)
def test_what_cannot_be_played_is_told_in_one_line(arguments: list[str], expected: str) -> None:
    assert expected in told(castaway("marooned", "play", *arguments))
