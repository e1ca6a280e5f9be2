"""The served teacher against a server that behaves badly in every way: nothing wrong comes out, and nothing hangs."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.teaching import MaroonedRules
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import WORST_PENALTY, Attempt, TeacherOutage, Verdict
from castaway.teacher.agreement import UNUSABLE
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.protocol import AnswerCache
from castaway.teacher.rules import Corrector, RulesTeacher
from castaway.teacher.served import FEWEST, ServedOptions, ServedTeacher

RULES = MaroonedRules()
LEGAL = "REASONING: rest\nACTION: WAIT"
ILLEGAL = "REASONING: I go.\nACTION: MOVING"
PAUSE = ServedOptions(on_outage="pause")
GO_ON = ServedOptions(on_outage="rules")
Make = Callable[..., ServedTeacher]


def attempts(*texts: str) -> list[Attempt]:
    """The same sailor's situation with these answers."""
    environment = MaroonedEnvironment("skiff", "compact")
    environment.reset(5, "crew")
    prompt = environment.prompts()[0]
    return [Attempt.of(prompt, text) for text in texts]


@pytest.fixture
def make(url: str) -> Iterator[Make]:
    """Makes teachers, and closes them."""
    made: list[ServedTeacher] = []

    def teacher(
        behaviour: str, options: ServedOptions = PAUSE, cache: AnswerCache | None = None, **changes: Any
    ) -> Any:
        quick = Endpoint(url, behaviour, attempt_seconds=2.0, deadline_seconds=4.0, patience_seconds=30.0)
        made.append(ServedTeacher("marooned", RULES, replace(quick, **changes), options, cache))
        return made[-1]

    yield teacher
    for one in made:
        one.close()


def asked(url: str, model: str) -> list[dict[str, Any]]:
    """The questions that a model got."""
    with urllib.request.urlopen(url.replace("/v1", "/asked"), timeout=10) as response:
        return [question for question in json.load(response) if question["model"] == model]


def test_what_was_answered_in_an_outage_is_not_asked_again(make: Make, url: str, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    texts = [f"REASONING: I go.\nACTION: MOVING {number}" for number in range(4)]
    with pytest.raises(TeacherOutage):
        make("half", cache=cache, deadline_seconds=0.5).judge(attempts(*texts))
    again = make("half", GO_ON, cache=cache, deadline_seconds=0.5)
    verdicts = again.judge(attempts(*texts))
    assert again.counts["cached"] == 2 and again.counts["outages"] == 2
    assert [verdict.source for verdict in verdicts] == ["half", "rules", "half", "rules"]


def test_a_sample_of_the_calls_is_told(url: str) -> None:
    told: list[tuple[Any, ...]] = []
    teacher = ServedTeacher("marooned", RULES, Endpoint(url, "good"), GO_ON, observer=lambda *call: told.append(call))
    teacher.judge(attempts(*[f"REASONING: I go.\nACTION: MOVING {number}" for number in range(400)]))
    teacher.close()
    assert 1 <= len(told) <= 30
    name, inputs, outputs, began, ended = told[0]
    assert name == "verdict" and inputs["messages"][0]["role"] == "system" and began <= ended
    assert json.loads(outputs["answer"])["valid"] is False


def test_a_legal_action_stands_and_an_illegal_one_is_put_right(make: Make) -> None:
    good, bad = make("good").judge(attempts(LEGAL, ILLEGAL))
    assert good == Verdict(True, "WAIT", 0.0, "So it is.", "", "good")
    assert not bad.valid and bad.source == "good" and bad.penalty == -1.5, "the model says -1.25"
    assert [verdict.penalty for verdict in make("harsh").judge(attempts(LEGAL, ILLEGAL))] == [WORST_PENALTY] * 2
    assert [verdict.penalty for verdict in make("generous").judge(attempts(LEGAL, ILLEGAL))] == [0.0, -1.5]
    assert bad.action == RULES.legal_actions(attempts(ILLEGAL)[0].prompt.observation)[-1]
    assert bad.reasoning == RULES.reason(attempts(ILLEGAL)[0].prompt.observation, bad.action)


@pytest.mark.parametrize("form", ["fenced", "thinking", "closing", "parts", "tool", "reasoning", "gzip"])
def test_an_answer_in_another_form_is_used_at_once(make: Make, form: str) -> None:
    teacher = make(form)
    (verdict,) = teacher.judge(attempts(ILLEGAL))
    assert verdict.source == form and teacher.counts["tries"] == 1


@pytest.mark.parametrize(("asked", "name"), [("dated", "dated-2026-11-30"), ("alias", "somebody-else")])
def test_a_server_that_answers_as_another_model_is_believed_and_told_once(
    make: Make, asked: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = make(asked)
    assert [verdict.source for verdict in teacher.judge(attempts(LEGAL, ILLEGAL))] == [asked, asked]
    assert teacher.counts[f"answered as {name}"] == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and line.endswith(f"(model {asked}) answers as {name!r}")


@pytest.mark.parametrize("fault", ["busy", "broken", "cut", "huge", "html", "null", "slow", "failing", "later"])
def test_a_fault_that_passes_is_waited_out(make: Make, fault: str) -> None:
    teacher = make(f"{fault}-good", attempt_seconds=0.3 if fault == "slow" else 2.0)
    assert teacher.judge(attempts(LEGAL))[0].source == f"{fault}-good"
    assert teacher.counts["tries"] == 2 and sum(teacher.counts.values()) == 4
    assert teacher.counts["unusable_share"] == 0


@pytest.mark.parametrize("fault", ["busy", "broken", "cut", "huge", "html", "null", "slow", "rejecting"])
def test_a_fault_that_stays_ends_before_the_deadline_in_the_rules_or_in_a_pause(make: Make, fault: str) -> None:
    hurry = {"attempt_seconds": 0.3, "deadline_seconds": 1.0}
    teacher = make(fault, GO_ON, **hurry)
    assert teacher.judge(attempts(LEGAL, ILLEGAL)) == RulesTeacher(RULES).judge(attempts(LEGAL, ILLEGAL))
    assert teacher.counts["outages"] == 2
    with pytest.raises(TeacherOutage, match=r"127\.0\.0\.1.*run the stage again"):
        make(fault, PAUSE, **hurry).judge(attempts(LEGAL))


def test_a_server_that_stays_away_is_soon_left_alone(make: Make) -> None:
    nobody = {"url": "http://127.0.0.1:9/v1", "deadline_seconds": 1.0, "patience_seconds": 0.1}
    teacher = make("good", GO_ON, **nobody)
    assert teacher.judge(attempts(ILLEGAL))[0].source == "rules"
    tries = teacher.counts["tries"]
    teacher.judge(attempts(ILLEGAL, LEGAL))
    assert teacher.counts["tries"] == tries and teacher.counts["down"] >= 2
    stopped = make("good", PAUSE, **nobody)
    with pytest.raises(TeacherOutage, match=r"takes no connections|did not answer before"):
        stopped.judge(attempts(ILLEGAL))
    with pytest.raises(TeacherOutage, match=r"(takes no connections|did not answer .*), and is not asked for a while"):
        stopped.judge(attempts(ILLEGAL))


@pytest.mark.parametrize("odd", ["prose", "refusal", "surrogate", "illegal", "types", "extra", "nan", "verbose", "yes"])
def test_an_answer_that_cannot_be_used_is_asked_for_once_more_with_the_reason(make: Make, url: str, odd: str) -> None:
    model = f"{odd}-good"
    assert make(model).judge(attempts(ILLEGAL))[0].source == model
    stubborn = make(odd)
    (verdict,) = stubborn.judge(attempts(ILLEGAL))
    by_rules = RulesTeacher(RULES).judge(attempts(ILLEGAL))[0]
    assert replace(verdict, dispute=None) == replace(by_rules, source=UNUSABLE)
    kinds = {"illegal": "proposes an illegal action", "yes": "calls an illegal move legal"}
    assert (verdict.dispute.kind if verdict.dispute else None) == kinds.get(odd)
    assert stubborn.counts["asked again"] == 1 and stubborn.counts["unusable"] == 1
    first, second = asked(url, odd)
    assert len(first["messages"]) == 2 and len(second["messages"]) == 4
    assert second["messages"][3]["content"].startswith("That cannot be used: ")


def test_a_teacher_whose_answers_cannot_be_used_is_told_once_or_pauses(
    make: Make, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    texts = [f"REASONING: I go.\nACTION: MOVING {number}" for number in range(3 * FEWEST)]
    pause = ServedOptions(on_unusable="pause", most_unusable=0.45)
    mute = make("mute", pause, cache)  # it minds every second question
    with pytest.raises(TeacherOutage, match=r"50% of the last answers .*most_unusable \(45%\).*name another model"):
        mute.judge(attempts(*texts[:FEWEST]))
    # What could be used is stored, and counts when the stage goes on.
    again = make("mute", replace(pause, most_unusable=0.5), cache)
    sources = [verdict.source for verdict in again.judge(attempts(*texts[:FEWEST]))]
    assert sources == ["mute", UNUSABLE] * (FEWEST // 2) and again.counts["unusable_share"] == 0.5
    assert capsys.readouterr().err == ""

    warning = make("prose", ServedOptions(most_unusable=0.99))
    warning.judge(attempts(*texts[: FEWEST - 1]))
    assert warning.counts["unusable_share"] == 1 and capsys.readouterr().err == ""
    warning.judge(attempts(*texts[FEWEST : 2 * FEWEST]))
    warning.judge(attempts(*texts[2 * FEWEST :]))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: 100% of the last answers of the teacher prose could not be used")


def test_a_legal_action_that_the_model_dislikes_is_executed_unless_it_may_override(make: Make) -> None:
    assert make("no").judge(attempts(LEGAL))[0].valid
    overridden = make("no", ServedOptions(override_legal=True)).judge(attempts(LEGAL))[0]
    assert not overridden.valid and overridden.source == "no"
    assert RULES.refusal(attempts(LEGAL)[0].prompt.observation, overridden.action) is None


class NothingIsGood(MaroonedRules):
    """Rules by which every legal action is a mistake."""

    def blunder(self, observation: Any, action: str) -> str:
        return "No."


@pytest.mark.parametrize("override", [False, True])
def test_a_mistake_that_stands_is_corrected_by_the_expert(url: str, override: bool) -> None:
    options = ServedOptions(override_legal=override)
    corrector = Corrector(lambda _: Reply("b", "a"))
    teacher = ServedTeacher("marooned", NothingIsGood(), Endpoint(url, "no"), options, corrector=corrector)
    with closing(teacher):
        (verdict,) = teacher.judge(attempts("REASONING: rest\nACTION: WAIT"))
    assert (verdict.source, verdict.valid, verdict.better) == ("no", not override, "" if override else "a")


def test_in_a_cascade_only_what_the_rules_doubt_is_asked(make: Make) -> None:
    teacher = make("good", ServedOptions(cascade=True))
    assert [verdict.source for verdict in teacher.judge(attempts(LEGAL, ILLEGAL))] == ["rules", "good"]
    assert teacher.counts["tries"] == 1


def test_nothing_is_paid_for_twice(make: Make, tmp_path: Path) -> None:
    store = tmp_path / "cache" / "verdicts.db"
    first = make("good", cache=AnswerCache(store))
    verdicts = first.judge(attempts(LEGAL, ILLEGAL, LEGAL, ILLEGAL))
    assert first.counts["tries"] == 2
    again = make("good", cache=AnswerCache(store), url="http://127.0.0.1:9/v1", deadline_seconds=1.0)
    assert again.judge(attempts(LEGAL, ILLEGAL, LEGAL, ILLEGAL)) == verdicts
    assert "tries" not in again.counts and again.counts["cached"] == 4
    another = make("another", cache=AnswerCache(store), url="http://127.0.0.1:9/v1", deadline_seconds=1.0)
    with pytest.raises(TeacherOutage):
        another.judge(attempts(LEGAL))


def test_a_stored_answer_is_checked_like_a_new_one(make: Make, tmp_path: Path) -> None:
    class Poisoned(AnswerCache):
        def get(self, keys: Any) -> dict[str, str]:
            bad = {"valid": False, "action": "FLY HOME", "penalty": 0.0, "critique": ""}
            return {key: json.dumps(bad) for key in keys}

    teacher = make("good", cache=Poisoned(tmp_path / "verdicts.db"))
    assert teacher.judge(attempts(ILLEGAL))[0].source == "good" and "cached" not in teacher.counts


def test_the_key_is_sent_and_never_shown(make: Make, url: str) -> None:
    make("good-keyed", key="s3cret").judge(attempts(LEGAL))
    assert asked(url, "good-keyed")[0]["authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(Endpoint(url, "good", key="s3cret"))
    with pytest.raises(TeacherOutage) as caught:
        make("rejecting", key="s3cret").judge(attempts(LEGAL))
    assert "s3cret" not in str(caught.value)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_whatever_the_student_writes_the_action_is_legal(make: Make, text: str) -> None:
    attempt = attempts(text)[0]
    for behaviour in ("good", "illegal", "yes"):
        verdict = make(behaviour).judge([attempt])[0]
        assert RULES.refusal(attempt.prompt.observation, verdict.action) is None
        assert WORST_PENALTY <= verdict.penalty <= 0 and "\n" not in verdict.critique
