"""What is known: the facts of the bank and of a user's own files, found by full-text search (FTS5 of SQLite)."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from castaway.config.errors import CastawayError
from castaway.envs.strictbot import compact_questions, english_questions
from castaway.envs.strictbot.question_bank import Form, read
from castaway.tools.strictbot.wording import stems_of

BANK, TYPED, COMPUTED = "the bank", "you", "arithmetic"  # sources of facts; others are names of files
SUFFIXES = (".md", ".txt")
LARGEST = 16 * 2**20  # bytes of all files together: their index is kept in memory
CANDIDATES = 100  # facts that the search ranks first and that are looked at
COMMON = set(stems_of("what which who whose where when why how i you he she it we they me my your this that there and"))
COMMON |= set(stems_of("or of to in on at by with from so not"))
SAID_SHORTER = {
    r"the number of (.+?) (?:of|in) (.+) is (\d+)": r"\2 has \3 \1",
    r"the colour of (.+) is (.+)": r"\1 is \2",
}
"""What people say instead of the claims of the compact bank."""
MARKS = re.compile(r"^\s*(?:[#>*+-]+|\d+[.)])\s+|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")  # of Markdown
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'])")


@dataclass(frozen=True, slots=True)
class Fact:
    text: str
    source: str
    family: str = ""  # empty for what a user told
    form: Form = "check"


def content_of(text: str) -> frozenset[str]:
    """The words by which a text is recognised: without the common ones, unless it has no others."""
    words = frozenset(stems_of(text))
    return words - COMMON or words


class Facts:
    def __init__(self, facts: Iterable[Fact]) -> None:
        self._facts = list(dict.fromkeys(facts))
        self._index = sqlite3.connect(":memory:")
        self._index.execute("CREATE VIRTUAL TABLE facts USING fts5(words)")
        rows = ((number, " ".join(stems_of(fact.text))) for number, fact in enumerate(self._facts))
        self._index.executemany("INSERT INTO facts(rowid, words) VALUES (?, ?)", rows)

    def sharing(self, text: str, least: float = 0.0) -> list[Fact]:
        """The facts that share most words with a text, at least this share, the best first; a user's before the bank's.

        Of two words or more, at least two have to be shared if `least` is given.
        """
        words = content_of(text)
        query = " OR ".join(f'"{word}"' for word in sorted(words))
        command = "SELECT rowid FROM facts WHERE facts MATCH ? ORDER BY rank LIMIT ?"
        facts = [self._facts[row] for (row,) in self._index.execute(command, (query, CANDIDATES))] if query else []
        said = {fact: content_of(fact.text) for fact in facts}
        if least:
            most = max(min(2, len(words)), least * len(words))
            facts = [fact for fact in facts if len(words & said[fact]) >= most]
        return sorted(facts, key=lambda fact: (bool(fact.family), -len(words & said[fact]), len(said[fact])))


def facts_of_bank() -> Iterator[Fact]:
    """What the banks of both renderings say about claims and beliefs, and how the English one explains things."""
    for question in compact_questions.bank().questions:
        if question.form in ("check", "belief") and question.kind == "good question":
            claim = compact_questions.core_of(question.asked)
            for text in (claim, *(re.sub(said, short, claim) for said, short in SAID_SHORTER.items())):
                yield Fact(text, BANK, question.family, question.form)
    for small, (large, count, _) in read("compact/units").items():
        one = {"hours": "an hour", "feet": "a foot", "inches": "an inch"}.get(large, f"a {large[:-1]}")
        yield Fact(f"{one} has {count} {small}", BANK, small)
        yield Fact(f"the number of {small} in {one} is {count}", BANK, small)
    for question in english_questions.bank().questions:
        if question.form != "conclusion" and question.kind != "trivial":
            text = question.false if question.opposite else question.fact
            yield Fact(text, BANK, question.family, question.form)
            if question.form == "check" and (question.kind == "good question") != question.opposite:
                yield Fact(question.claim, BANK, question.family, question.form)


def read_facts(path: Path) -> list[Fact]:
    """One fact for each line, or sentence in it, of a text file, or of all those in a folder.

    Raises:
        CastawayError: there is no such file, nothing in it, too much, or something other than text.
    """
    if not path.exists():
        raise CastawayError(f"{path} does not exist; name a file or a folder with facts, one a sentence or line")
    files = sorted(one for one in path.rglob("*") if one.suffix.lower() in SUFFIXES) if path.is_dir() else [path]
    files = [file for file in files if file.is_file()]
    if (size := sum(file.stat().st_size for file in files)) > LARGEST:
        raise CastawayError(f"{path} has {size / 2**20:.0f} MiB; the facts of a chat have at most {LARGEST // 2**20}")
    facts = [Fact(sentence, file.name) for file in files for sentence in _sentences(file)]
    if not facts:
        raise CastawayError(f"{path} holds no facts; write one a line into a file {' or '.join(SUFFIXES)}")
    return facts


def _sentences(file: Path) -> Iterator[str]:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = "\0"
    if "\0" in text:
        raise CastawayError(f"{file} cannot be read as text in UTF-8; facts are one a sentence or line")
    sentences = (one for line in text.splitlines() for one in SENTENCE_END.split(MARKS.sub("", line).strip()))
    return (one for one in sentences if stems_of(one))
