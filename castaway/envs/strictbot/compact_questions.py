"""The questions of the compact rendering, made from the files in the folder `bank/compact`; and synthetic ones.

Synthetic questions are those of the bank with other words in them. A model trained on the bank alone learns its facts
by heart and fails on others. With synthetic questions it has to learn to copy and compare any words. The words are
those of the questions that training uses, and coined ones: words of families that it never meets stay unknown to it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise, product
from random import Random
from string import ascii_uppercase
from typing import Any

from castaway.envs.strictbot.answers import Reader
from castaway.envs.strictbot.question_bank import Bank, Form, Kind, Observation, Question, read, some, text_hash

MOST_SUBJECTS = 110  # largest number of subjects of a family, so that families with many fillers do not dominate
READER = Reader(lambda text: re.findall(r"[a-z0-9.]*[a-z0-9]", text.lower()))


@cache
def bank() -> Bank:
    frames = read("compact/asking")
    questions = []
    for question in (*_relations(), *_beliefs(), *_logic(), *_trivial()):
        own = frames[question.form]
        questions.append(replace(question, asked=own[text_hash(question.asked, len(own))].format(question.asked)))
    return Bank(tuple(questions), read("compact/split"))


def _known(value: str) -> str:
    return f"it is {value}"


def value_of(fact: str) -> str:
    return fact.removeprefix("it is ")


def _relations() -> Iterator[Question]:
    """Subjects with one right value: a wrong claim, a right claim, and an open question."""
    topics = dict(number_topics())
    for family, topic in read("compact/tables").items():
        rows = [(str(subject), str(value)) for subject, value in topic["values"].items()]
        topics[family] = (topic["claim"], topic["open"], rows)
    for family, (claim, open_question, rows) in topics.items():
        for subject, value in some(rows, MOST_SUBJECTS):
            other = _other(sorted({value for _, value in rows}), value, subject)
            fact, false = _known(value), _known(other)
            right, wrong = (claim.format(subject=subject, value=one) for one in (value, other))
            asked = open_question.format(subject=subject)
            yield Question(wrong, fact, false, "factual error", "check", family, subject)
            yield Question(right, fact, false, "good question", "check", family, subject)
            yield Question(asked, fact, false, "good question", "open", family, subject)


def _other(values: Sequence[str], value: str, subject: str) -> str:
    others = [other for other in values if other != value]
    return others[text_hash(f"{subject} {value}", len(others))]


def _fillings(fill: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    """All combinations of fillers; a filler that is a list fills as many places as it has words."""
    rows = []
    for chosen in product(*fill):
        parts = [part if isinstance(part, list) else [part] for part in chosen]
        rows.append(tuple(str(word) for part in parts for word in part))
    return some(rows, MOST_SUBJECTS)


def _beliefs() -> Iterator[Question]:
    for family, topic in read("compact/beliefs").items():
        cases = [tuple(map(str, case)) for case in topic.get("cases", [])]
        for row in _fillings(topic["fill"]) if "fill" in topic else []:
            cases.append(tuple(str(topic[name]).format(*row) for name in ("claim", "so", "believed")))
        for claim, so, believed in cases:
            fact, false = _known(so), _known(believed)
            yield Question(f"{claim} {believed}", fact, false, "misconception", "belief", family, claim)
            yield Question(f"{claim} {so}", fact, false, "good question", "belief", family, claim)


def _logic() -> Iterator[Question]:
    for family, topic in read("compact/logic").items():
        for row in _fillings(topic["fill"]):
            subject, may = " ".join(row), topic["may"].format(*row)
            fact, false = _known(f"perhaps {may}"), _known("surely so")
            yield Question(topic["poor"].format(*row), fact, false, "poor logic", "conclusion", family, subject)
            if "sound" in topic:
                asked, follows = topic["sound"].format(*row), topic["follows"].format(*row)
                fact, false = _known(f"surely {follows}"), _known("perhaps not so")
                yield Question(asked, fact, false, "good question", "conclusion", family, subject)


def _trivial() -> Iterator[Question]:
    for family, topic in read("compact/trivial").items():
        rows, place = _fillings(topic["fill"]), topic["value"]
        values = sorted({row[place] for row in rows})
        for row in rows:
            asked, subject = topic["asked"].format(*row), " ".join(row)
            fact, false = _known(row[place]), _known(_other(values, row[place], subject))
            yield Question(asked, fact, false, "trivial", "open", family, subject)


Row = tuple[str, str]
Topic = tuple[str, str, list[Row]]  # templates of a claim and of an open question, and the rows


def number_topics() -> dict[str, Topic]:
    # The remainder modulo 11 keeps an eleventh of the pairs, well mixed.
    small = [(a, b) for a in range(2, 50) for b in range(2, 50) if a > b and (a * 7 + b * 3) % 11 == 0]
    table = [(a, b) for a in range(3, 13) for b in range(2, a)]
    one = [(n, 0) for n in range(3, 90)]
    topics = {
        "sum": _topic("sum of", "{0} and {1}", small, lambda a, b: a + b),
        "difference": _topic("difference of", "{0} and {1}", small, lambda a, b: a - b),
        "product": _topic("product of", "{0} and {1}", table, lambda a, b: a * b),
        "remainder": _topic("remainder of", "{0} by {1}", [(a, b) for a, b in small if b < 13], lambda a, b: a % b),
        "larger": _topic("larger of", "{0} and {1}", [_turned(pair) for pair in small], max),
        "smaller": _topic("smaller of", "{0} and {1}", [_turned(pair) for pair in small], min),
        "double": _topic("double of", "{0}", one, lambda n, _: 2 * n),
        "triple": _topic("triple of", "{0}", one[:60], lambda n, _: 3 * n),
        "half": _topic("half of", "{0}", [(2 * n, 0) for n, _ in one], lambda n, _: n // 2),
        "square": _topic("square of", "{0}", one[:40], lambda n, _: n * n),
        "number_after": _topic("number after", "{0}", one, lambda n, _: n + 1),
        "number_before": _topic("number before", "{0}", one, lambda n, _: n - 1),
    }
    for small_unit, (large_unit, factor, most) in read("compact/units").items():
        rows = [(f"{n} {large_unit}", str(factor * n)) for n in range(2, most + 1)]
        claim = f"the number of {small_unit} in {{subject}} is {{value}}"
        topics[small_unit] = (claim, f"how many {small_unit} are in {{subject}}", rows)
    clock = [(f"{n} hours past {at}", str((at + n - 1) % 12 + 1)) for at in range(2, 13) for n in range(2, at + 1)]
    topics["clock"] = ("the hour of {subject} is {value}", "which hour is {subject} on a clock of 12 hours", clock)
    after = list(pairwise(ascii_uppercase))
    topics["letter_after"] = ("the letter after {subject} is {value}", "which letter comes after {subject}", after)
    return topics


def _topic(phrase: str, subject: str, cases: Iterable[tuple[int, int]], value: Callable[[int, int], int]) -> Topic:
    rows = [(subject.format(a, b), str(value(a, b))) for a, b in cases]
    return f"the {phrase} {{subject}} is {{value}}", f"what is the {phrase} {{subject}}", rows


def _turned(pair: tuple[int, int]) -> tuple[int, int]:
    """The pair or its reverse, so that the larger number does not always come first."""
    return pair if sum(pair) % 2 else pair[::-1]


SYNTHETIC = "made up"  # the family of questions that are not in the bank


@cache
def _frames() -> tuple[tuple[Form, str, str], ...]:
    parts = [(form, *frame.split("{0}")) for form, frames in read("compact/asking").items() for frame in frames]
    return tuple(sorted(parts, key=lambda one: -len(one[1] + one[2])))


def frame_of(asked: str) -> tuple[Form, str, str]:
    """Form, and words before and after the core; `form_of` tells open questions from conclusions in the same frame."""
    # Every question stands in the frame that has no words, the last one.
    return next(frame for frame in _frames() if asked.startswith(frame[1]) and asked.endswith(frame[2]))


def core_of(asked: str) -> str:
    _, before, after = frame_of(asked)
    return asked[len(before) : len(asked) - len(after)]


def form_of(asked: str, fact: str) -> Form:
    form = frame_of(asked)[0]
    if form in ("check", "belief"):
        return form
    return "conclusion" if value_of(fact).split(" ")[0] in ("perhaps", "surely") else "open"


def names_fact(asked: str, fact: str) -> bool:
    """Whether a question names the value of the fact: a claim or belief at its end, any other question anywhere."""
    core, value = f" {core_of(asked)} ", f" {value_of(fact)} "
    if form_of(asked, fact) in ("check", "belief"):
        return core.endswith(value) and not core.endswith(f" not{value}")
    return value in core


def names_fact_among_others(asked: str, fact: str) -> bool:
    """Whether a question names the value of the fact and another one, as `the smaller of 9 and 4` does."""
    core, value = f" {core_of(asked)} ", f" {value_of(fact)} "
    return f"{value}and " in core or f" and{value}" in core


def kind_by_rule(asked: str, fact: str) -> Kind:
    """The kind of a conclusion by its fact (`perhaps`), of other questions by whether they name the fact.

    An open question that names it among others has to be answered all the same.
    """
    wrong: dict[Form, Kind] = {"check": "factual error", "belief": "misconception", "open": "good question"}
    form = form_of(asked, fact)
    if form == "conclusion":
        return "poor logic" if value_of(fact).startswith("perhaps") else "good question"
    right: Kind = "trivial" if form == "open" and not names_fact_among_others(asked, fact) else "good question"
    return right if names_fact(asked, fact) else wrong[form]


def question_of(asked: str, fact: str) -> Question:
    """The question with these texts: that of the bank, or a synthetic one with derived kind and false statement."""
    if known := bank().find(asked, fact):
        return known
    core, kind, size = core_of(asked), kind_by_rule(asked, fact), len(value_of(fact).split(" "))
    said = set(fact.split(" "))
    words = [word for word in bank().vocabulary if word not in said]
    claimed = core.split(" ")[-size - 1 if core.endswith(f" not {value_of(fact)}") else -size :]
    if kind not in ("factual error", "misconception"):
        claimed = [words[text_hash(f"{asked} {place}", len(words))] for place in range(size)]
    return Question(asked, fact, f"it is {' '.join(claimed)}", kind, form_of(asked, fact), SYNTHETIC, asked)


# Synthetic questions -------------------------------------------------------------------------------------------------

KEPT = ("perhaps", "surely", "not", "and")  # never replaced, since they decide the kind: see `kind_by_rule`
OTHERS = (0.3, 1.0)  # shares of a question's words that are replaced, one drawn per question; of a fact, all
LENGTHS = (1, 1, 1, 2, 3)  # numbers of words that replace one word of the fact, one of them drawn per word
AGAIN, LINKED = 0.6, 0.5
"""Shares of long replacements that repeat their first word; and of the others, that have one of `links`."""
COINED, NUMBERS = 0.5, 0.2
"""Share of the new words that no question has and that are no tokens, and of numbers among these."""
UNNAMED, AMONG_OTHERS = 0.25, 0.5
"""Share of the open questions naming the fact that are changed not to name it, since twice as many in the bank do; and
of those about one thing `and` another that get one of the two as their fact, and have to be answered all the same."""
EXCHANGED = 0.5  # share of PPO's conclusions with `perhaps` and `surely` exchanged: then only they tell the kind
LONGEST = 5  # most words of a synthetic fact for PPO: longer ones are too seldom answered to learn from


def short_synthetic_question(question: Question, random: Random) -> Question:
    """A synthetic question whose fact is not too long; the original one if 20 attempts give none."""
    for _ in range(20):
        shown = synthetic_observation(question.observation, random)
        if len(value_of(shown.fact).split(" ")) <= LONGEST:
            return question_of(shown.asked, _exchanged(shown, random))
    return question


def _exchanged(observation: Observation, random: Random) -> str:
    first, *others = value_of(observation.fact).split(" ")
    if form_of(observation.asked, observation.fact) == "conclusion" and random.random() < EXCHANGED:
        first = {"perhaps": "surely", "surely": "perhaps"}[first]
    return " ".join(("it is", first, *others))


def synthetic_observation(observation: Observation, random: Random) -> Observation:
    """A synthetic question with the same structure and other words; a word is replaced by the same one everywhere.

    A word of the fact can become several, so that a model also has to learn where the fact ends. Questions whose kind
    the rule does not tell (`the colour of a ripe orange`) stay as they are: with other words it would be wrong.
    """
    known = bank().find(observation.asked, observation.fact)
    if known and known.kind != kind_by_rule(observation.asked, observation.fact):
        return observation
    _, before, after = frame_of(observation.asked)
    core, value = core_of(observation.asked).split(" "), value_of(observation.fact).split(" ")
    share, words = random.choice(OTHERS), _other_words(random)
    into = {word: word for word in (*core, *value)}
    for word in dict.fromkeys(core):
        if word not in KEPT and random.random() < share:
            into[word] = _new(words, into, 1)
    for word in dict.fromkeys(value):
        if word not in KEPT:
            into[word] = _phrase(words, into, random)
    asked = before + " ".join(into[word] for word in core) + after
    said = [into[word] for word in value]
    is_open = form_of(observation.asked, observation.fact) == "open"
    if is_open and names_fact(observation.asked, observation.fact) and random.random() < UNNAMED:
        said[-1] = _new(words, into, 1)
    elif is_open and "and" in core[1:-1] and random.random() < AMONG_OTHERS:
        said = [into[core[core.index("and") + random.choice((-1, 1))]]]
    return Observation(asked, f"it is {' '.join(said)}")


def _other_words(random: Random) -> Iterator[str]:
    """Words in a random order, none of them twice: of questions that training uses, with coined ones among them."""
    coined: set[str] = set()
    for word in random.sample(bank().vocabulary, len(bank().vocabulary)):
        if random.random() < COINED:
            word = _coined(random)
            if word in coined or word in bank().all_words:
                continue
            coined.add(word)
        yield word


@cache
def _long_words() -> tuple[str, ...]:
    return tuple(word for word in bank().vocabulary if word.isalpha() and len(word) > 3)


def _coined(random: Random) -> str:
    if random.random() < NUMBERS:
        return str(random.randrange(100, 2000))
    one, other = random.choice(_long_words()), random.choice(_long_words())
    return one[: len(one) // 2 + 1] + other[len(other) // 2 :].lower()


def _phrase(words: Iterator[str], into: dict[str, str], random: Random) -> str:
    """A few new words; sometimes one is repeated, as in `as often as before`, or a linking word joins them."""
    phrase = _new(words, into, random.choice(LENGTHS)).split(" ")
    if len(phrase) > 1 and random.random() < AGAIN:
        phrase += [phrase[0], *_new(words, into, 1).split(" ")]
    elif len(phrase) > 1 and random.random() < LINKED:
        phrase.insert(random.randrange(1, len(phrase)), random.choice(links()))
    return " ".join(phrase)


@cache
def links() -> tuple[str, ...]:
    """The words with which endings of answers begin, such as `and`."""
    levels = read("compact/answers").values()
    return tuple(sorted({ending.split(" ")[0] for level in levels for ending in level["endings"]}))


def _new(words: Iterator[str], into: dict[str, str], count: int) -> str:
    return " ".join(islice((word for word in words if word not in into and word not in KEPT), count))
