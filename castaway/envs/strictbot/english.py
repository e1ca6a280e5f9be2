"""Plain English: how words are compared, how clauses become questions as people type them, and a tutor's reasoning."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeVar

from castaway.envs.strictbot.answers import Reader
from castaway.envs.strictbot.question_bank import Kind, Question, read, some, text_hash

Item = TypeVar("Item")

# Words ---------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_][^\W_]*")  # `100km` is two words, `CO2` is one
_CHANGES = (
    (re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)"), ""),  # don't: one word, with any apostrophe
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),  # 1,000: one number
    (re.compile(r"(?<![\w.)])[-\u2212\u2013](?=\d)"), "minus "),  # -40, but not 10-20
    (re.compile(r"\u00b0\s*c\b"), " degrees celsius "),
    (re.compile(r"\u00b0\s*f\b"), " degrees fahrenheit "),
    (re.compile(r"\u00b0"), " degrees "),
    (re.compile(r"%|\bper cent\b"), " percent "),
)
"""What is written in several ways, in lower case, and the form that is compared."""


@lru_cache(maxsize=65536)
def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a text, in lower case; `100 °C` is the same as `100 degrees Celsius`."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    for pattern, form in _CHANGES:
        plain = pattern.sub(form, plain)
    return tuple(_WORD.findall(plain))


READER = Reader(words)


# The notation of the files -------------------------------------------------------------------------------------------

MOST_FILLINGS = 24  # largest number of subjects of a family with fillers, so that no family dominates


def lines(block: str) -> list[str]:
    """The lines of a block; one that begins with `=` continues the one before."""
    return re.sub(r"\n\s*=", " =", block.strip()).split("\n")


def fields(line: str) -> tuple[list[str], list[str]]:
    left, _, right = line.partition(" = ")
    return _alternatives(left), _alternatives(right)


def _alternatives(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]


def fillings(blocks: Sequence[str | Sequence[Any]]) -> list[list[str]]:
    """The fillers of templates: each line or item of the first block with each of the next, field after field."""
    fillers = [lines(block) if isinstance(block, str) else map(str, block) for block in blocks]
    rows = [[field for filler in chosen for field in _alternatives(filler)] for chosen in product(*fillers)]
    return some(rows, MOST_FILLINGS)


# Questions -----------------------------------------------------------------------------------------------------------

SPELLED = 3  # in one in this many claims a number is written as a word, if it has one
_ARTICLE = re.compile(r"(\ba|(?:^|(?<=[.?!] ))A) (?=[aeiou]|8|11\b|18\b)(?!one\b|uni|use|euro|ukulele)")
_STOPS = re.compile(r"(?<=[A-Za-z])\.\.(?!\.)")
WRAPPED = 4  # one in this many questions has other words before or after it
LONGEST = 150  # most characters of a question that gets further words
CARELESS = 3  # one in this many questions is typed carelessly
LONG_WORD = 5  # letters of a word in which a slip is still understood


def capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def fix_grammar(text: str) -> str:
    """The text with `an` where a template has `a` before a vowel or `8`, and without a second full stop after one."""
    return _STOPS.sub(".", _ARTICLE.sub(r"\1n ", text))


def sentence(clause: str) -> str:
    return fix_grammar(f"{capital(clause)}.")


def pick(items: Sequence[Item], key: str, number: int = 0) -> Item:
    """One of several, selected by a text; another one for each of the first numbers."""
    return items[(text_hash(key, len(items)) + number) % len(items)]


def spell_number(value: str, key: str) -> str:
    numbers: dict[str, str] = read("english/numbers")
    return numbers[value] if value in numbers and text_hash(f"{key} spelled", SPELLED) == 0 else value


def put_in_frame(frame: str, text: str, key: str) -> str:
    """A text in a frame with one place: `{c}` for a clause, `{q}` for a question, `{C}` and `{Q}` with a capital."""
    small = f"{text[:1].lower()}{text[1:]}"
    asked = add_chatter(fix_grammar(frame.format(c=text, C=capital(text), q=small, Q=capital(text))), key)
    return type_carelessly(asked) if text_hash(f"{key} typed", CARELESS) == 0 else asked


def put_after_fact(known: str, frame: str, asked: str, key: str) -> str:
    """A question in a frame that first says what is known: `{k}` for the clause as it is, `{K}` for a sentence."""
    return put_in_frame(frame.replace("{k}", known).replace("{K}", sentence(known)), asked, key)


def add_chatter(text: str, key: str) -> str:
    if text_hash(f"{key} wrapped", WRAPPED) or len(text) > LONGEST:
        return text
    frames = read("english/frames")
    if text_hash(f"{key} before", 2):
        return f"{pick(frames['before'], key)} {text}"
    return f"{text} {pick(frames['after'], key)}"


def type_carelessly(text: str) -> str:
    typed = re.sub(r"[,'\u2019\"]", "", text.lower()).rstrip(".?! ")
    if text_hash(f"{text} short", 2) == 0:
        short = read("english/short")
        typed = re.sub(rf"\b({'|'.join(short)})\b", lambda match: short[match[0]], typed)
    return misspell(typed) if text_hash(f"{text} misspelled", 2) == 0 else typed


def misspell(text: str) -> str:
    words = list(re.finditer(rf"\b[a-z]{{{LONG_WORD},}}\b", text))
    if not words:
        return text
    match = pick(words, f"{text} word")
    word, place = match[0], 1 + text_hash(f"{text} place", len(match[0]) - 3)
    one, other = word[place], word[place + 1]
    slip = pick([other + one, other, one + one + other], f"{text} slip")
    return f"{text[: match.start() + place]}{slip}{text[match.start() + place + 2 :]}"


# Reasoning -----------------------------------------------------------------------------------------------------------

MOST_DIFFERING = 6  # most words that are compared; with more, the whole claim is written down


def reasoning(question: Question, kind: Kind) -> str:
    """The reasoning that ends in `kind`: `it says 180, but it is 126: factual error`."""
    reason = comparison(question) or claim_check(question)
    return f"{reason}: {kind}" if reason else kind


def comparison(question: Question) -> str:
    """What a claim or an open question says, compared with its fact; empty where no few words decide."""
    true, false = difference(question.fact, question.false)
    if not true or not false:
        return "it says so itself" if question.kind == "trivial" else ""
    says_true, says_false = (READER.says(question.asked, value) for value in (true, false))
    if question.form == "open" and says_true == (question.kind == "trivial"):
        return f"it says {true} itself" if says_true else f"it does not say {true}"
    if question.form == "check" and says_true != says_false == (question.kind != "good question"):
        return f"it says {false}, but it is {true}" if says_false else f"it says {true}, and so it is"
    return ""


def claim_check(question: Question) -> str:
    """What a question claims, concludes or takes for granted, without slips of the pen, and whether it is so."""
    claim, right = question.claim, question.kind == "good question"
    if question.form == "conclusion" and question.doubtful:
        return f"it doubts that {claim}, which is {'open' if right else 'certain'}"
    if question.form == "conclusion":
        return f"it concludes that {claim}, which {'follows' if right else 'does not follow'}"
    return f"it says that {claim}, which is {'so' if right else 'not so'}" if claim else ""


def difference(one: str, other: str) -> tuple[str, str]:
    """The words in which two sentences differ, at least one of each; empty texts if those are many."""
    left, right = (text.rstrip(".").split() for text in (one, other))
    most = min(len(left), len(right)) - 1
    start = min(_alike(left, right), most)
    end = min(_alike(left[::-1], right[::-1]), most - start)
    parts = [words[start : len(words) - end] for words in (left, right)]
    if max(map(len, parts)) > MOST_DIFFERING:
        return "", ""
    return " ".join(parts[0]), " ".join(parts[1])


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
