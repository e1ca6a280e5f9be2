"""The questions of the full rendering, made from the files in the folder `bank/english`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from typing import Any

from castaway.envs.strictbot import english
from castaway.envs.strictbot.english import fields, fillings, fix_grammar, lines, pick, put_in_frame, sentence
from castaway.envs.strictbot.question_bank import Bank, Kind, Question, Share, read, share_of_subject, some, text_hash

WORDINGS, EXPLANATION_WORDINGS = 3, 4  # ways in which a subject is asked about; and an explanation
HELD, TOLD = 3, 2  # one in this many topics, and explanations, has a question that holds its answer
MOST_ROWS = 40  # largest number of subjects of a table, so that no family dominates


@cache
def bank() -> Bank:
    """The whole bank. Where two questions have the same text, only the first is in it."""
    by_text: dict[str, Question] = {}
    for question in chain(_tables(), _beliefs(), _implied(), _conclusions(), _trivial(), _explained()):
        by_text.setdefault(question.asked, question)
    plain = Bank(tuple(by_text.values()), read("english/split"))

    def opposed(question: Question) -> bool:
        """Whether the false statement is taken as the fact: in half of the claims and beliefs that training uses."""
        compares = question.form in ("check", "belief") and plain.share_of(question) == "train"
        return compares and text_hash(f"{question.asked} opposed", 2) == 0

    questions = (question.with_opposite_fact() if opposed(question) else question for question in plain.questions)
    return replace(plain, questions=tuple(questions))


def _frames(form: str) -> list[str]:
    return list(read("english/frames")[form])


def _share(family: str, subject: str) -> Share:
    return share_of_subject(family, subject, read("english/split"))


# Topics with one right value for each subject: wrong claims, right claims, and open questions ------------------------


@dataclass(frozen=True, slots=True)
class Row:
    subject: str  # fills the places `{0}`, `{1}` ... of a template; ` | ` separates several
    value: str  # fills the place `{v}`
    others: tuple[str, ...] = ()  # wrong values that people take for it; if none, those of the other subjects

    def fill(self, template: str, value: str) -> str:
        return template.format(*self.subject.split(" | "), v=value)


def _tables() -> Iterator[Question]:
    """The questions of all topics: tables `subject = value ; wrong value ; another wrong value`, and computed ones."""
    computed = number_rows()
    for file in ("geography", "science", "history", "life", "language", "everyday", "numbers"):
        for family, table in read(f"english/tables/{file}").items():
            yield from _topic(family, table, some(computed.get(family) or _rows(table["rows"]), MOST_ROWS))


def _rows(block: str) -> list[Row]:
    return [Row(subject, value, tuple(others)) for (subject,), (value, *others) in map(fields, lines(block))]


def _topic(family: str, table: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Question]:
    """The questions of a topic, which has clauses with the fact, the first in `fact`, and questions for the value."""
    clauses = [table["fact"], *table["claims"]]
    # A fact is not told in a clause that begins with the value, which would get a capital; a computed one in one only.
    facts = [table["fact"], *(one for one in table["claims"] if "rows" in table and not one.startswith("{v}"))]
    for row in rows:
        wrong = row.others or sorted({one.value for one in rows} - {row.value})
        # What is mentioned before a question is of the same share, so that no share tells the facts of another.
        share = _share(family, row.subject)
        mentioned = [one for one in rows if one != row and _share(family, one.subject) == share]
        key = f"{family} {row.subject}"
        for number in range(WORDINGS):
            other = pick(wrong, row.subject, number)
            told = pick(facts, f"{key} told", number)
            fact, false = (sentence(row.fill(told, value)) for value in (row.value, other))
            kinds: tuple[tuple[Kind, str], ...] = (("factual error", other), ("good question", row.value))
            for kind, value in kinds:
                asked, claim = _claim(clauses, row, value, f"{key} {value}", number)
                yield Question(asked, fact, false, kind, "check", family, row.subject, number, claim)
            last = number == WORDINGS - 1
            context = pick(mentioned, key) if mentioned and last else None
            question = row.fill(pick(table["asks"], key, number), "")
            asked = _value_question(clauses, question, context, key, number)
            yield Question(asked, fact, false, "good question", "open", family, row.subject, number)
            if last and text_hash(f"{key} held", HELD) == 0:
                asked = _value_question(clauses, question, row, key, number)
                yield Question(asked, fact, false, "trivial", "open", family, row.subject)


def _claim(clauses: Sequence[str], row: Row, value: str, key: str, number: int) -> tuple[str, str]:
    template = pick(clauses, key, number)
    clause = row.fill(template, value if "=" in template else english.spell_number(value, f"{key} {number}"))
    return put_in_frame(pick(_frames("check"), f"{key} check", number), clause, f"{key} {number}"), fix_grammar(clause)


def _value_question(clauses: Sequence[str], question: str, context: Row | None, key: str, number: int) -> str:
    if context is None:
        return put_in_frame(pick(_frames("open"), f"{key} open", number), question, f"{key} {number}")
    key = f"{key} after {context.subject}"
    known = context.fill(pick(clauses, key), context.value)
    return english.put_after_fact(known, pick(_frames("context"), key), question, key)


Values = Callable[..., Sequence[object]]  # the right value for some numbers, then wrong ones that people come to

EACH = 18  # subjects of a computed topic
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMERALS = ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def number_rows() -> dict[str, tuple[Row, ...]]:
    pairs = [(a, b) for a in range(12, 90) for b in range(6, 60) if a > b]
    means = [(a, b) for a, b in pairs if (a + b) % 2 == 0 and a - b > 3]
    table = [(a, b) for a in range(3, 16) for b in range(3, 13) if a > b]
    products = [(a * b, b) for a, b in table]
    prices = [(price, share) for price in range(40, 400, 20) for share in (5, 10, 20, 25, 50)]
    offers = [(price, share) for price, share in prices if share < 50]
    notes = [(note, price) for note in (20, 50, 100) for price in range(3, 98) if 3 < note - price < 60]
    trips = [(speed, time) for speed in range(30, 130, 10) for time in (2, 3, 4, 5)]
    hours = [(hour, later) for hour in range(6, 12) for later in range(3, 12) if hour + later > 12]
    days = list(product(range(7), (8, 9, 10, 11, 12, 15, 16, 20, 30)))
    births = [(born, year) for born in range(1950, 2015, 3) for year in (2030, 2040, 2050)]
    to_88, to_31, to_30, to_20 = ([(n,) for n in range(*ends)] for ends in ((4, 90), (5, 32), (4, 31), (2, 21)))
    celsius = [(n,) for n in range(5, 96, 5)]

    def off(price: int, share: int) -> int:
        return price * share // 100

    # Name to the cases, the right value of a case and wrong ones, and how a case is shown if not as it is.
    topics: dict[str, tuple[Any, ...]] = {
        "addition": (pairs, lambda a, b: (a + b, a + b + 10, a + b - 1, a + b + 2)),
        "subtraction": (pairs, lambda a, b: (a - b, a - b + 10, a - b + 1, a - b + 2)),
        "multiplication": (table, lambda a, b: (a * b, a * b + a, a * b - b, a * b + 2)),
        "division": (products, lambda a, b: (a // b, a // b + 1, a // b - 1, a // b + 2)),
        "square": (to_30, lambda n: (n * n, 2 * n, n * n + n, n * n - 1)),
        "percentage": (prices, lambda a, b: (off(a, b), a - off(a, b), off(a, b) + 5, b)),
        "discount": (offers, lambda a, b: (a - off(a, b), a - b, off(a, b), a - off(a, b) + 5)),
        "average": (means, lambda a, b: ((a + b) // 2, a + b, (a + b) // 2 + 1, a - b)),
        "area": (table, lambda a, b: (a * b, 2 * (a + b), a + b, a * b + b)),
        "perimeter": (table, lambda a, b: (2 * (a + b), a * b, a + b, 2 * a + b)),
        "change": (notes, lambda a, b: (a - b, a - b + 10, a - b - 1, a - b + 1)),
        "distance": (trips, lambda a, b: (a * b, a * b + a, a + b, a * b - 10)),
        "fahrenheit": (celsius, lambda n: (n * 9 // 5 + 32, n + 32, n * 9 // 5, n * 9 // 5 + 22)),
        "numeral": (to_88, lambda n: (n, n + 1, n + 10, n + 2), lambda n: (numeral(n),)),
        "clock": (hours, lambda a, b: (a + b - 12, a + b - 11, a + b - 10)),
        "weekday": (days, lambda a, b: [DAYS[(a + b + c) % 7] for c in (0, 1, 6, 3)], lambda a, b: (b, DAYS[a])),
        "birthday": (births, lambda a, b: (b - a, b - a + 1, b - a - 1, b - a + 10)),
        "binary": (to_31, lambda n: [f"{n + more:b}" for more in (0, 1, 2, -2)]),
    }
    for name, factors in read("english/units").items():
        topics[name] = (to_20, lambda n, factors=factors: [n * one for one in factors])
    return {name: _computed(*topic) for name, topic in topics.items()}


def numeral(number: int) -> str:
    text = ""
    for value, letters in NUMERALS:
        while number >= value:
            text, number = text + letters, number - value
    return text


def _computed(cases: Sequence[tuple[int, ...]], values: Values, shown: Values | None = None) -> tuple[Row, ...]:
    """Some of the cases, with right and wrong values; the subject is what `shown` gives, or the case itself."""
    chosen = sorted(cases, key=lambda case: (text_hash(f"case {case}", 2**32), case))[:EACH]
    rows = []
    for case in chosen:
        value, *others = (str(one) for one in values(*case))
        subject = " | ".join(str(one) for one in (shown(*case) if shown else case))
        rows.append(Row(subject, value, tuple(one for one in dict.fromkeys(others) if one != value)))
    return tuple(rows)


def _beliefs() -> Iterator[Question]:
    for file in ("nature", "people", "everyday"):
        for family, block in read(f"english/beliefs/{file}").items():
            for so, believed in _cases(block):
                fact, false = sentence(so[0]), sentence(believed[0])
                both: tuple[tuple[Kind, Sequence[str]], ...] = (("misconception", believed), ("good question", so))
                for kind, clauses in both:
                    key = f"{family} {so[0]} {kind}"
                    for number in range(WORDINGS):
                        clause = pick(clauses, key, number)
                        asked = put_in_frame(pick(_frames("belief"), key, 5 * number), clause, f"{key} {number}")
                        yield Question(asked, fact, false, kind, "belief", family, so[0], number, fix_grammar(clause))


def _cases(block: Any) -> list[tuple[list[str], list[str]]]:
    """What is so and what is believed, in several clauses each: from a block of lines, or templates with fillers."""
    if isinstance(block, str):
        return [fields(line) for line in lines(block)]
    return [
        ([one.format(*row) for one in block["so"]], [one.format(*row) for one in block["believed"]])
        for row in fillings(block["fill"])
    ]


def _implied() -> Iterator[Question]:
    """Beliefs never told in the words of the fact (`details`), and questions that take a belief for granted."""
    files = {"details": _frames("belief"), "assumed": ["{Q}"]}
    blocks = ((file, *item) for file in files for item in read(f"english/beliefs/{file}").items())
    for file, family, block in blocks:
        for so, believed in map(fields, lines(block)):
            fact, false = sentence(so[0]), sentence(believed[0])
            both: tuple[tuple[Kind, Sequence[str]], ...] = (("misconception", believed[1:]), ("good question", so[1:]))
            for kind, texts in both:
                for number, text in enumerate(texts):
                    key = f"{family} {so[0]} {kind} {number}"
                    # What a question takes for granted stands in brackets behind it.
                    told, _, granted = text.rstrip("]").partition(" [")
                    asked, claim = put_in_frame(pick(files[file], key), told, key), fix_grammar(granted or told)
                    yield Question(asked, fact, false, kind, "belief", family, so[0], number, claim)


def _conclusions() -> Iterator[Question]:
    """Conclusions that do not follow, conclusions that do, and both drawn with the wrong certainty.

    So neither the words of the conclusion nor those of the fact tell the kind alone.
    """
    bold = _frames("conclusion")
    for family, topic in chain(*(read(f"english/logic/{file}").items() for file in ("forms", "everyday"))):
        careful = [frame for name in topic.get("careful", ("alone", "possible")) for frame in _frames(name)]
        for row in fillings(topic["fill"]):
            yield from _argued(family, topic, row, bold, "poor logic", WORDINGS)
            yield from _argued(family, topic, row, careful, "good question", 1 if careful else 0, doubtful=True)
            if sound := topic.get("sound"):
                count = text_hash(" ; ".join(row), 2)
                yield from _argued(family, sound, row, bold, "good question", WORDINGS)
                yield from _argued(family, sound, row, careful, "poor logic", count, doubtful=True)


def _argued(
    family: str,
    topic: Mapping[str, Any],
    row: Sequence[str],
    frames: Sequence[str],
    kind: Kind,
    count: int,
    doubtful: bool = False,
) -> Iterator[Question]:
    """Premises, a conclusion that is drawn from them, and the fact that decides whether it follows."""
    subject, given = " ; ".join(row), english.capital(topic["given"].format(*row))
    then = [one.format(*row) for one in topic["then"]]
    fact, false = (sentence(topic[name].format(*row)) for name in ("fact", "otherwise"))
    for number in range(count):
        key = f"{family} {subject} {fact} {kind} {then[0]} {number}"
        frame, conclusion = pick(frames, key, number).replace("{P}", given), then[0] if doubtful else pick(then, key)
        asked, claim = put_in_frame(frame, conclusion, key), fix_grammar(conclusion)
        yield Question(asked, fact, false, kind, "conclusion", family, subject, number, claim, doubtful)


# Questions that answer themselves, and questions for an explanation --------------------------------------------------


def _trivial() -> Iterator[Question]:
    for family, topic in read("english/trivial").items():
        rows, place = fillings(topic["fill"]), topic["value"]
        values = sorted({row[place] for row in rows})
        # Only the last place of the fact takes the wrong value, as in `a red hat is blue`.
        head, _, tail = topic["fact"].rpartition(f"{{{place}}}")
        for row in rows:
            subject = " ; ".join(row)
            other = pick([one for one in values if one != row[place]], subject)
            fact = sentence(topic["fact"].format(*row))
            false = sentence(head.format(*row) + other + tail.format(*row))
            for number in range(WORDINGS):
                key = f"{family} {subject} {number}"
                question = pick(topic["asks"], key, number).format(*row)
                asked = put_in_frame(pick(_frames("open"), key, number), question, key)
                yield Question(asked, fact, false, "trivial", "open", family, subject, number)


def _explained() -> Iterator[Question]:
    """Questions for an explanation; some stand after another one of the same share, or after their own."""
    for family, block in read("english/explained").items():
        rows = [fields(line) for line in lines(block)]
        for asks, (fact, false, granted) in rows:
            share = _share(family, fact)
            mentioned = [other for _, (other, *_) in rows if other != fact and _share(family, other) == share]
            texts = sentence(fact), sentence(false)
            for number in range(EXPLANATION_WORDINGS):
                key, question = f"{family} {fact} {number}", pick(asks, fact, number)
                if mentioned and number == EXPLANATION_WORDINGS - 1:
                    asked = english.put_after_fact(pick(mentioned, key), pick(_frames("context"), key), question, key)
                else:
                    asked = put_in_frame(pick(_frames("open"), key), question, key)
                yield Question(asked, *texts, "good question", "open", family, fact, number, granted)
            if text_hash(f"{fact} told", TOLD) == 0:
                key = f"{family} {fact} told"
                asked = english.put_after_fact(fact, pick(_frames("context"), key), pick(asks, fact), key)
                yield Question(asked, *texts, "trivial", "open", family, fact)
