"""Preference pairs prefer what suits the question, and neither side of them tells which one is chosen."""

from collections import Counter
from random import Random

import pytest

from castaway.datasets.jsonl import pair
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.task import PairRow
from stages.reward_model import answer_only_accuracy, prompt_only_accuracy
from tests.castaway.envs.strictbot.renderings import LANGUAGES, TASKS, prompts


@pytest.fixture(params=["compact", "full"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def pairs(name: str, first: int, episodes: int, count: int) -> list[PairRow]:
    return TASKS[name].preference_pairs(prompts(TASKS[name], first, episodes), count, Random(first))


def civil(name: str, rows: list[PairRow]) -> list[PairRow]:
    """Those without an insult, which is the one thing that is always rejected."""
    return [row for row in rows if not row[2].endswith(LANGUAGES[name].answers.insults)]


def test_pairs_prefer_what_fits_better(name: str) -> None:
    """Where the judge, who learned from other words, sees a difference at all."""
    task, rows = TASKS[name], pairs(name, 0, 20, 1500)
    fits = task.fits([(prompt, answer) for prompt, *answers in civil(name, rows) for answer in answers])
    assert sum(better > worse for better, worse in zip(fits[::2], fits[1::2], strict=True)) > 0.97 * len(fits) / 2
    wrong = Counter(task.pair_groups(*row)["wrong"] for row in rows)
    assert set(wrong) == {"level", "curt", "level, against a curt one", "fact", "abuse"}
    assert 0.02 < wrong["abuse"] / len(rows) < 0.05
    for prompt, *answers in rows[:200]:
        chosen, rejected = map(parse_reply, answers)
        assert chosen.reasoning == rejected.reasoning and chosen.action != rejected.action
        shown = LANGUAGES[name].prompts.read_back(prompt)
        question = LANGUAGES[name].question_behind(shown)
        assert task.pair_groups(prompt, *answers)["kind"] == question.kind


def test_each_word_is_chosen_as_often_as_rejected(name: str) -> None:
    counts: Counter[str] = Counter()
    for _, chosen, rejected in civil(name, pairs(name, 0, 20, 2000)):
        counts.update(chosen.split())
        counts.subtract(rejected.split())
    assert counts and not any(counts.values())


def test_neither_answers_nor_prompts_alone_tell_the_chosen_one(name: str) -> None:
    drawn = ((0, 60, 2000), (400_000_000, 20, 800))
    train, held_out = ([pair(*row) for row in pairs(name, *one)] for one in drawn)
    assert 0.4 <= answer_only_accuracy(train, held_out, seed=1) <= 0.6
    assert 0.4 <= prompt_only_accuracy(train, held_out, seed=1) <= 0.6


def test_what_is_wrong_with_a_rejected_answer_is_told() -> None:
    task, answers = TASKS["compact"], LANGUAGES["compact"].answers
    environment = task.make()
    environment.reset(1_000_000_000, "one")
    (prompt,) = environment.prompts()
    fact = prompt.observation.fact
    full, wrong, false = (
        str(Reply("a", answers.write(level, said, Random(1))))
        for level, said in ((3, fact), (1, fact), (3, "it is Atlantis"))
    )
    short = str(Reply("a", answers.curt(3, Random(1))))
    abuse = str(Reply("a", answers.abusive(3, fact, Random(1))))
    rejected = [(full, wrong), (full, false), (full, short), (short, wrong), (full, abuse)]
    told = [task.pair_groups(prompt.messages, *pair)["wrong"] for pair in rejected]
    assert told == ["level", "fact", "curt", "level, against a curt one", "abuse"]
