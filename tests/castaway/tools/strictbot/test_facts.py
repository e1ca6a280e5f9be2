"""What a chat looks up: facts of the bank and of files, found by their words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.tools.strictbot.facts import LARGEST, Fact, Facts, content_of, facts_of_bank, read_facts
from tests.castaway.command import castaway, refused, told

WORD = st.text(st.characters(categories=["Ll", "Lu", "Nd"]), min_size=1, max_size=8)
SENTENCE = st.lists(WORD, min_size=1, max_size=9).map(" ".join)


@given(st.lists(SENTENCE, min_size=1, max_size=12), st.data())
def test_a_fact_typed_word_by_word_finds_itself(sentences: list[str], data: st.DataObject) -> None:
    facts = Facts(Fact(one, "a file") for one in sentences)
    typed = data.draw(st.sampled_from(sentences))
    if content_of(typed):  # words such as `is` alone find nothing
        assert Fact(typed, "a file") in facts.sharing(typed, 1.0)


def test_the_bank_finds_its_facts_and_nothing_for_nonsense() -> None:
    known = list(facts_of_bank())
    facts = Facts(known)
    for fact in known[::997]:
        assert fact in facts.sharing(f"is it so that {fact.text} ?", 0.6)
    for nonsense in ("", "?!", '" OR "', "qwrt zxcv", "NEAR(blorp)", "the is a"):
        assert facts.sharing(nonsense, 0.6) == []


def test_facts_are_lines_and_sentences_of_text_and_markdown(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.md").write_text(
        "# Our house\n\n* The *cat* is **grey**. It is 3.5 years old.\n---\n", "utf-8"
    )
    (tmp_path / "a.txt").write_text("\ufeffThe shop opens at 8\n\n", "utf-8")
    (tmp_path / "c.py").write_text("print()")
    texts = [(fact.text, fact.source) for fact in read_facts(tmp_path)]
    cat = [(text, "b.md") for text in ("Our house", "The cat is grey.", "It is 3.5 years old.")]
    assert texts == [("The shop opens at 8", "a.txt"), *cat]


def test_what_holds_no_facts_is_told_in_one_line(tmp_path: Path) -> None:
    binary, empty, large, folder = (tmp_path / name for name in ("model.bin", "empty.txt", "large.txt", "folder"))
    binary.write_bytes(b"\x00\xff\xfe")
    empty.write_text(" \n--\n")
    folder.mkdir()
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    said = {tmp_path / "nowhere": "does not exist", binary: "UTF-8", empty: "no facts", large: "16", folder: "no facts"}
    for path, sentence in said.items():
        assert sentence in refused(read_facts, path) and str(path) in refused(read_facts, path)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ([], "need a --run"),
        (["--run", "marooned"], "no chat with the run 'marooned'"),
        (["--run", "strictbot"], "no.txt does not exist"),
    ],
)
def test_facts_need_a_chat_that_looks_them_up(tmp_path: Path, run: list[str], said: str) -> None:
    assert said in told(castaway("chat", "nowhere", "--facts", str(tmp_path / "no.txt"), *run))
