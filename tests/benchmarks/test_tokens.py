"""The table of token counts."""

from pathlib import Path

from benchmarks.tokens import counts, runs, tokens_table, turns
from castaway.models.tiny import train_tokenizer
from castaway.tasks.registry import read_params

PARAMS = read_params(Path(__file__).parents[2] / "params.yaml")
TOKENIZER = train_tokenizer(["REASONING: a\nACTION: WAIT"] * 9, 300)


def test_every_run_has_a_row_for_each_tokenizer() -> None:
    shown = tokens_table(PARAMS, {"one": TOKENIZER, "two": TOKENIZER}, 6)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.split("\n")[4:]]
    names = ["marooned, skiff", "marooned, classic", "openspiel", "strictbot"]
    assert [(row[0], row[1]) for row in rows] == [(run, name) for run in names for name in ("one", "two")]
    assert all(int(cell) > 0 for row in rows for cell in row[2:])
    assert all(int(row[3]) <= int(row[4]) and int(row[5]) <= int(row[6]) for row in rows)


def test_what_is_counted_is_a_turn_of_the_full_rendering() -> None:
    found = dict(runs(PARAMS))
    for system, user, reply in turns(found["openspiel"], 5):
        assert "ACTION: " in system and "Moves: " in user and reply.startswith("REASONING: ")
    assert len(turns(found["marooned, classic"], 12)) == 12
    assert counts(TOKENIZER, ["REASONING: a", ""])[1] == 0
