"""The contract, the embedded teacher, preference pairs, and the figures of evaluation."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.compact_questions import LONGEST, SYNTHETIC
from castaway.envs.strictbot.environment import StrictbotEnvironment, StrictbotRules
from castaway.envs.strictbot.question_bank import Observation
from castaway.tasks.environment import HELD_OUT_START, Outcome
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.verdict import Attempt
from castaway.teacher.rules import PENALTIES, RulesTeacher
from castaway.tools.checker import check_environment
from tests.castaway.envs.strictbot.renderings import LANGUAGES, PARAMS, TASKS, prompts

TASK, LANGUAGE = TASKS["compact"], LANGUAGES["compact"]
BANK, ANSWERS, READER = LANGUAGE.bank, LANGUAGE.answers, LANGUAGE.reader


def test_in_full_it_keeps_the_contract() -> None:
    check_environment(TASKS["full"].make, range(2))


@pytest.mark.parametrize("rendering", ["compact", "full"])
def test_an_expert_is_as_strict_as_deserved_and_others_often(rendering: str) -> None:
    task, environment = TASKS[rendering], TASKS[rendering].make()
    for task_id in (*range(24), *range(HELD_OUT_START, HELD_OUT_START + 24)):
        environment.reset(task_id, "one")
        (prompt,) = environment.prompts()
        reply = task.expert(prompt)
        assert reply.reasoning.endswith(LANGUAGES[rendering].question_behind(prompt.observation).kind)
        earned = environment.step({prompt.agent: reply.action})
        assert environment.outcome().success and earned[prompt.agent] == 1.5
    shown, play = prompts(task, 3, 5), task.demonstrator(Random(0), 0.4)
    replies = [(prompt, play(prompt)) for prompt in shown]
    fit = sum(not environment.rules.blunder(one.observation, reply.action) for one, reply in replies) / len(shown)
    assert 0.6 < fit < 0.85
    assert all(environment.rules.refusal(one.observation, reply.action) is None for one, reply in replies)


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
    for prompt in prompts(TASK, 7, 1):
        question = BANK.find(prompt.observation.asked, prompt.observation.fact)
        for text in ("", "REASONING: trivial\nACTION: you are an idiot", TASK.slip(Reply("x", "a b c"), Random(2))):
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
    dearest = min(PENALTIES.values())
    assert PENALTIES[refusal.severity] == dearest, "cheaper, it would be a way out"


def outcome(wanted: int, produced: int, family: str, factual: float = 1.0, toxic: float = 0.0) -> Outcome:
    details = {"wanted": wanted, "produced": produced, "factual": factual}
    rest = {"words": 10.0, "toxic": toxic, "constructiveness": 1.0, "inconsistency": 0.0, "toxicity": toxic}
    return Outcome(wanted == produced, "", {**details, **rest}, {"family": family})


def test_figures_by_hand() -> None:
    new = sorted(BANK.new_families)[0]
    played = [outcome(3, 3, "capital"), outcome(3, 1, "capital")]
    played += [outcome(1, 1, new, factual=0.0), outcome(2, 0, new, toxic=1)]
    figures = TASK.report(played, [False, True, False, False])
    assert figures["appropriateness"] == 0.5 and figures["appropriateness_low"] < 0.5 < figures["appropriateness_high"]
    assert figures["factual_accuracy"] == 0.75 and figures["toxic_rate"] == 0.25 and figures["truncated_rate"] == 0.25
    assert figures["known_families"] == 0.5 and figures["new_families"] == 0.5 and figures[f"family_{new}"] == 0.5
    assert [figures[f"wanted_3_produced_{level}"] for level in range(4)] == [0, 1, 0, 1]
    assert figures["wanted_2_produced_0"] == 1 and figures["mean_words"] == 10.0


def test_half_of_what_training_asks_is_made_up_and_judged_as_any_other() -> None:
    (stage,) = TASK.curriculum(8)
    middle = len(stage.task_ids) // 2
    environment = StrictbotEnvironment(PARAMS)
    for half, made_up in ((stage.task_ids[:middle], False), (stage.task_ids[middle:], True)):
        for task_id in half[:: middle // 40]:
            environment.reset(task_id, "one")
            (prompt,) = environment.prompts()
            question = LANGUAGE.question_behind(prompt.observation)
            # Where what is known is long, all that is made up from it is too long, and the bank's question stands.
            assert (question.family == SYNTHETIC) is made_up or len(question.fact.split(" ")) > LONGEST
            assert TASK.kind_of(task_id) == question.kind
            # Coined, or a word that training uses: none that only other questions have.
            assert set(question.fact.split(" ")) & BANK.all_words <= set(BANK.vocabulary)
            environment.step({prompt.agent: TASK.expert(prompt).action})
            outcome = environment.outcome()
            assert outcome.success and outcome.details["factual"] == 1.0
            assert outcome.labels == {"family": question.family}
            environment.reset(task_id, "one")
            assert environment.prompts() == (prompt,)
