"""Preference pairs of STRICTBOT, made so that a reward model has to read the question.

There are five sorts; the first four are balanced, so that no answer is better without its question:

- level: two questions that deserve different levels, each with an answer of both levels around its own fact; the level
  chosen for one question is rejected for the other;
- alike: the same with two questions of one form, and frames for that form;
- curt: for two questions as in `level`, right level with fact over right level without fact, and that over wrong level
  with fact;
- fact: two questions of one family (`value`) or of any family (`topic`), with each other's facts: what is true for one
  is false for the other;
- abuse: a right answer over the same one with an insult as its ending. This sort cannot be balanced, so it is rare.

Both answers of a pair have the same reasoning, which ends in a random kind or is none, so that it does not influence
the choice.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from random import Random

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question_bank import LEVEL_OF, Kind, Question
from castaway.envs.strictbot.rewards import factual
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.task import PairRow

NO_REASONING = "a question"  # a reasoning without content

Asked = tuple[Prompt, Question]
Group = Iterator[tuple[Prompt, str, str]]


def preference_pairs(language: Language, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
    """At most `count` pairs, in whole groups: three times the sorts of `Language.pair_sorts`, then one of abuse."""
    asked = [(prompt, language.question_behind(prompt.observation)) for prompt in prompts]
    by_family: dict[str, list[Asked]] = {}
    for prompt, question in asked:
        if question.form == "check":
            by_family.setdefault(question.family, []).append((prompt, question))
    relations = [group for group in by_family.values() if len({question.fact for _, question in group}) > 1]
    kinds: list[Kind | None] = [None, *sorted(LEVEL_OF)]
    rows: list[PairRow] = []
    for sort in cycle([*language.pair_sorts] * 3 + ["abuse"]):
        kind = random.choice(kinds)
        if sort == "value" and not relations:
            continue
        if sort == "value":
            group = list(_value_group(language, random.choice(relations), random))
        else:
            group = list(_group(language, sort, asked, random))
        if len(rows) + len(group) > count:
            break
        for prompt, better, worse in group:
            question = language.question_behind(prompt.observation)
            reasoning = language.reasoning(question, kind) if kind else NO_REASONING
            rows.append((prompt.messages, str(Reply(reasoning, better)), str(Reply(reasoning, worse))))
    return rows


def _group(language: Language, sort: str, asked: Sequence[Asked], random: Random) -> Group:
    def unlike(one: Question, other: Question) -> bool:
        return one.level != other.level and one.fact != other.fact and (sort != "alike" or one.form == other.form)

    (one, first), (other, second) = _two(asked, random, unlike)
    answers = language.answers
    form = first.form if sort == "alike" else None
    frames = random.randrange(2**31)  # a seed: the same opening and ending around both facts
    for prompt, question, elsewhere in ((one, first, second), (other, second, first)):
        right = answers.write(question.level, question.fact, Random(frames), form=form)
        wrong = answers.write(elsewhere.level, question.fact, Random(frames), form=form)
        if sort in ("level", "alike"):
            yield prompt, right, wrong
        elif sort == "curt":
            short = answers.curt(question.level, Random(frames))
            yield prompt, right, short
            yield prompt, short, wrong
        elif sort == "abuse":
            yield prompt, right, answers.abusive(question.level, question.fact, Random(frames))
        else:
            firm, false = (answers.write(3, fact, Random(frames)) for fact in (question.fact, elsewhere.fact))
            yield prompt, firm, false


def _value_group(language: Language, relation: Sequence[Asked], random: Random) -> Group:
    (one, first), (other, second) = _two(relation, random, lambda a, b: a.fact != b.fact)
    frames, level = random.randrange(2**31), random.choice([first.level, second.level])
    write = language.answers.write
    for prompt, question, elsewhere in ((one, first, second), (other, second, first)):
        yield prompt, write(level, question.fact, Random(frames)), write(level, elsewhere.fact, Random(frames))


def _two(asked: Sequence[Asked], random: Random, fit: Callable[[Question, Question], bool]) -> tuple[Asked, Asked]:
    while True:
        two = random.choice(asked), random.choice(asked)
        if fit(two[0][1], two[1][1]):
            return two


def pair_group(language: Language, messages: Sequence[Message], chosen: str, rejected: str) -> dict[str, str]:
    """The groups of a pair for the report of the reward model.

    They are the kind and the family of its question, whether training uses the family (`families`), and what is wrong
    with the rejected answer (`wrong`): its level, its level against a curt chosen answer, a missing fact (`curt`), a
    false fact (`fact`), or abuse.
    """
    reader, question = language.reader, language.question_behind(language.prompts.read_back(messages))
    better, worse = parse_reply(chosen).action, parse_reply(rejected).action
    has_fact = tuple(reader.says(answer, question.fact) for answer in (better, worse))
    if has_fact == (True, False):
        frame = reader.without(better, question.fact)
        wrong = "fact" if len(reader.words(frame)) < len(reader.words(worse)) else "curt"
    elif worse.endswith(language.answers.insults):
        wrong = "abuse"
    else:
        wrong = "level" if all(has_fact) else "level, against a curt one"
    return {
        "kind": question.kind,
        "family": question.family,
        "families": "new" if language.bank.reserved(question) else "known",
        "wrong": wrong,
    }


def fits(language: Language, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
    """How well each answer suits its question: 2/3 for the level, as the judge reads it, and 1/3 for the fact.

    This is the order of the pairs: a right level with false fact is better than a wrong level with the right one.
    """
    questions = [language.question_behind(language.prompts.read_back(messages)) for messages, _ in answers]
    texts = [parse_reply(answer).action for _, answer in answers]
    levels = language.judge.produced_levels([(text, one.fact) for text, one in zip(texts, questions, strict=True)])
    return [
        (2.0 * (level == question.level) + factual(text, question.fact, question.false, language)) / 3
        for text, question, level in zip(texts, questions, levels, strict=True)
    ]
