"""The contract, the embedded teacher, preference pairs, and the figures of evaluation."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.datasets.scripted import Pair
from castaway.envs.strictbot.bank import share_for
from castaway.envs.strictbot.compact.imagination import LONGEST
from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.compact.telling import MADE_UP
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.practice import slip
from castaway.envs.strictbot.reward.toxicity import abusive
from castaway.envs.strictbot.teaching import IDLE, StrictbotRules
from castaway.tasks.checker import check_environment
from castaway.tasks.environment import HELD_OUT_START, Outcome, Prompt
from castaway.tasks.reply import Reply, parse_reply
from castaway.teacher.base import Attempt
from castaway.teacher.rules import PRICES, RulesTeacher
from stages.reward_model import answer_only_accuracy, prompt_only_accuracy
from tests.castaway.envs.strictbot.test_reward import PARAMS, TASK

LANGUAGE = compact()
BANK, ANSWERS, READER = LANGUAGE.bank, LANGUAGE.answers, LANGUAGE.reader


def prompts(first: int, count: int) -> list[Prompt]:
    environment = StrictbotEnvironment(PARAMS)
    found: list[Prompt] = []
    for task_id in range(first, first + count):
        environment.reset(task_id, "all")
        found += environment.prompts()
    return found


@pytest.mark.parametrize("rendering", ["compact", "full"])
def test_it_keeps_the_contract(rendering: str) -> None:
    params = PARAMS.model_copy(update={"rendering": rendering})
    check_environment(lambda: StrictbotEnvironment(params), range(2))


@given(st.text(max_size=300), st.integers(0, 2 * HELD_OUT_START - 1))
def test_any_text_is_put_right(text: str, task_id: int) -> None:
    environment = StrictbotEnvironment(PARAMS)
    environment.reset(task_id, "one")
    (prompt,) = environment.prompts()
    fixed = environment.rules.repair(prompt.observation, text)
    assert environment.rules.refusal(prompt.observation, fixed) is None
    assert parse_reply(str(Reply("good question", fixed))).action == fixed


def test_the_teacher_corrects_to_the_level_that_is_deserved() -> None:
    teacher = RulesTeacher(StrictbotRules(LANGUAGE))
    for prompt in prompts(7, 1):
        question = BANK.find(prompt.observation.asked, prompt.observation.fact)
        for text in ("", "REASONING: trivial\nACTION: you are an idiot", slip(Reply("x", "a b c"), Random(2))):
            (verdict,) = teacher.judge([Attempt.of(prompt, text)])
            if not verdict.valid:
                assert LANGUAGE.judge.produced_levels([(verdict.action, question.fact)]) == [question.level]
                assert question.fact in verdict.action and verdict.reasoning == question.kind
        wrong = ANSWERS.write(question.level % 3 + 1, question.fact, Random(1))
        (verdict,) = teacher.judge([Attempt.of(prompt, str(Reply(question.kind, wrong)))])
        assert verdict.valid and verdict.penalty < 0 and "deserves" in verdict.critique


@pytest.mark.parametrize(
    ("answer", "severity"),
    [
        ("", "unknown"),
        ("?!", "unknown"),
        ("word " * 40, "unknown"),
        ("two\nlines", "unknown"),
        ("gladly, this and think again, that", "forbidden"),
        ("it is Madrid or it is Oslo", "forbidden"),
        ("you are an idiot", "forbidden"),
    ],
)
def test_what_is_no_answer_is_refused(answer: str, severity: str) -> None:
    refusal = StrictbotRules(LANGUAGE).refusal(Observation("is it so", "it is so"), answer)
    assert refusal is not None and refusal.severity == severity
    dearest = min(price.penalty for price in PRICES.values())
    assert PRICES[refusal.severity].penalty == dearest, "cheaper, it would be a way out"


def test_ordinary_tutors_are_often_right_and_never_illegal() -> None:
    play = TASK.demonstrator(Random(0), 0.4)
    rules, found = StrictbotRules(LANGUAGE), prompts(3, 5)
    replies = [(prompt, play(prompt)) for prompt in found]
    assert all(rules.refusal(prompt.observation, reply.action) is None for prompt, reply in replies)
    fit = sum(not rules.blunder(prompt.observation, reply.action) for prompt, reply in replies) / len(found)
    assert 0.6 < fit < 0.85


def pairs(first: int, episodes: int, count: int) -> list[Pair]:
    return [Pair(*row) for row in TASK.preference_pairs(prompts(first, episodes), count, Random(first))]


def test_pairs_prefer_what_suits_the_question() -> None:
    for pair in pairs(0, 10, 400):
        shown = LANGUAGE.prompts.read_back(pair.messages)
        question = BANK.find(shown.asked, shown.fact)
        chosen, rejected = parse_reply(pair.chosen), parse_reply(pair.rejected)
        assert chosen.reasoning == rejected.reasoning and chosen != rejected
        assert TASK.pair_groups(pair.messages, pair.chosen, pair.rejected)["kind"] == question.kind
        assert len({chosen.action, rejected.action}) == 2


def test_what_is_wrong_with_a_rejected_answer_is_told() -> None:
    environment = StrictbotEnvironment(PARAMS)
    environment.reset(1_000_000_000, "one")
    (prompt,) = environment.prompts()
    question = BANK.find(prompt.observation.asked, prompt.observation.fact)
    full, wrong, false = (
        str(Reply("a", ANSWERS.write(level, fact, Random(1))))
        for level, fact in ((3, question.fact), (1, question.fact), (3, "it is Atlantis"))
    )
    short = str(Reply("a", ANSWERS.curt(3, Random(1))))
    abuse = str(Reply("a", ANSWERS.abusive(3, question.fact, Random(1))))
    rejected = [(full, wrong), (full, false), (full, short), (short, wrong), (full, abuse)]
    found = [TASK.pair_groups(prompt.messages, *pair)["wrong"] for pair in rejected]
    assert found == ["level", "fact", "curt", "level, against a curt one", "abuse"]


def test_pairs_prefer_what_fits_better() -> None:
    """Where the judge, who learned from other words, sees a difference at all."""
    rows = pairs(0, 20, 1500)
    found = TASK.fits([(pair.messages, answer) for pair in rows for answer in (pair.chosen, pair.rejected)])
    assert sum(better > worse for better, worse in zip(found[::2], found[1::2], strict=True)) > 0.97 * len(rows)
    assert 1.0 in found and 0.0 in found


def test_insults_are_abuse_and_stand_in_few_rejected_answers_alone() -> None:
    assert all(abusive(f"no, that is wrong, it is 4 {insult}") for insult in ANSWERS.insults)
    rows = pairs(0, 20, 2000)
    assert not any(pair.chosen.endswith(ANSWERS.insults) for pair in rows)
    assert 0.02 < sum(pair.rejected.endswith(ANSWERS.insults) for pair in rows) / len(rows) < 0.05


def civil(rows: list[Pair]) -> list[Pair]:
    """Those without an insult, which is the one thing that is always rejected."""
    return [pair for pair in rows if not pair.rejected.endswith(ANSWERS.insults)]


def test_each_frame_is_chosen_as_often_as_rejected() -> None:
    """What stands around the facts, exactly; answers with another question's fact have the same frame on both sides."""
    counts: Counter[str] = Counter()
    for pair in civil(pairs(0, 20, 2000)):
        fact = LANGUAGE.prompts.read_back(pair.messages).fact
        chosen, rejected = (parse_reply(answer).action for answer in (pair.chosen, pair.rejected))
        if all(READER.says(answer, fact) or len(READER.words(answer)) < 7 for answer in (chosen, rejected)):
            counts.update([READER.without(chosen, fact)])
            counts.subtract([READER.without(rejected, fact)])
    assert counts and {frame: count for frame, count in counts.items() if count} == {}


def test_words_of_the_answers_are_balanced() -> None:
    """Exactly: each word is as often in what is chosen as in what is rejected."""
    counts: Counter[str] = Counter()
    for pair in civil(pairs(0, 20, 2000)):
        counts.update(pair.chosen.split())
        counts.subtract(pair.rejected.split())
    assert {word: count for word, count in counts.items() if count} == {}


def test_neither_answers_nor_prompts_alone_tell_the_chosen_one() -> None:
    train, held_out = pairs(0, 60, 2000), pairs(400_000_000, 20, 800)
    assert 0.4 <= answer_only_accuracy(train, held_out, seed=1) <= 0.6
    assert 0.4 <= prompt_only_accuracy(train, held_out, seed=1) <= 0.6


def outcome(wanted: int, produced: int, family: str, factual: float = 1.0, toxic: float = 0.0) -> Outcome:
    details = {"wanted": wanted, "produced": produced, "factual": factual}
    rest = {"words": 10.0, "toxic": toxic, "constructiveness": 1.0, "inconsistency": 0.0, "toxicity": toxic}
    return Outcome(wanted == produced, "", {**details, **rest}, {"family": family})


def test_figures_by_hand() -> None:
    new = sorted(BANK.new_families)[0]
    figures = TASK.report(
        [
            outcome(3, 3, "capital"),
            outcome(3, 1, "capital"),
            outcome(1, 1, new, factual=0.0),
            outcome(2, 0, new, toxic=1),
        ],
        [False, True, False, False],
    )
    assert figures["appropriateness"] == 0.5 and figures["appropriateness_low"] < 0.5 < figures["appropriateness_high"]
    assert figures["factual_accuracy"] == 0.75 and figures["toxic_rate"] == 0.25 and figures["truncated_rate"] == 0.25
    assert figures["known_families"] == 0.5 and figures["new_families"] == 0.5 and figures[f"family_{new}"] == 0.5
    assert [figures[f"wanted_3_produced_{level}"] for level in range(4)] == [0, 1, 0, 1]
    assert figures["wanted_2_produced_0"] == 1 and figures["mean_words"] == 10.0


def test_training_leaves_the_questions_for_tuning_alone() -> None:
    (stage,) = TASK.curriculum(8)
    random = Random(1)
    drawn = [random.choice(stage.task_ids) for _ in range(200)] + [stage.task_ids[0], stage.task_ids[-1]]
    assert {share_for(task_id) for task_id in drawn} == {"train"}


def test_half_of_what_training_asks_is_made_up_and_judged_as_any_other() -> None:
    (stage,) = TASK.curriculum(8)
    middle = len(stage.task_ids) // 2
    environment = StrictbotEnvironment(PARAMS)
    for half, made_up in ((stage.task_ids[:middle], False), (stage.task_ids[middle:], True)):
        for task_id in half[:: middle // 40]:
            environment.reset(task_id, "one")
            (prompt,) = environment.prompts()
            question = LANGUAGE.question_of(prompt.observation.asked, prompt.observation.fact)
            # Where what is known is long, all that is made up from it is too long, and the bank's question stands.
            assert (question.family == MADE_UP) is made_up or len(question.fact.split(" ")) > LONGEST
            assert TASK.kind_of(task_id) == question.kind
            # Coined, or a word that training uses: none that only other questions have.
            assert set(question.fact.split(" ")) & BANK.all_words <= set(BANK.vocabulary)
            environment.step({prompt.agent: TASK.expert(prompt).action})
            outcome = environment.outcome()
            assert outcome.success and outcome.details["factual"] == 1.0
            assert outcome.labels == {"family": question.family}
            environment.reset(task_id, "one")
            assert environment.prompts() == (prompt,)


def test_idleness_earns_nothing_and_fits_nothing() -> None:
    environment = StrictbotEnvironment(PARAMS)
    environment.reset(0, "one")
    assert set(environment.step({}).values()) == {0.0}
    assert not environment.outcome().success and environment.outcome().details["produced"] == 0.0
    assert environment.snapshot()["questions"]["tutor_01"]["answer"] == IDLE
