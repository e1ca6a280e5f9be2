"""A correction reads back as the action that the teacher meant, for every action there is."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.datasets.jsonl import reply_text
from castaway.envs.marooned.actions import FORMS, parse_action
from castaway.envs.marooned.teaching import MaroonedRules
from castaway.rl.corrections import confirms, correct, corrected, correction_pair, correction_tokens
from castaway.rollout.trajectory import Turn
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply, parse_reply
from castaway.tasks.verdict import Attempt
from castaway.teacher.rules import RulesTeacher
from tests.castaway.envs.marooned.tables import Table
from tests.castaway.envs.marooned.test_actions import typed
from tests.castaway.rl.small import student, turn_of

WRONG = st.text(max_size=60) | st.text(max_size=30).map(lambda text: f"REASONING: {text}\nACTION: MOVING")


def turn(text: str, action: str, valid: bool = False) -> Turn:
    messages = ({"role": "user", "content": "prompt"},)
    return turn_of(text, messages=messages, action=action, valid=valid, penalty=-1.0, critique="No.")


def test_a_move_that_the_teacher_would_play_too_is_confirmed() -> None:
    own = turn("REASONING: so\nACTION: WAIT", "WAIT", valid=True)
    same, other = (correct(replace(own, better=action, reasoning="rest")) for action in ("WAIT", "SOS"))
    assert (reply_text(same["chosen"]), confirms(same)) == ("REASONING: rest\nACTION: WAIT", True)
    assert not confirms(other) and corrected(replace(own, better="WAIT")) and not corrected(own)


@given(st.data())
@settings(max_examples=60)
def test_every_action_there_is_reads_back(data: st.DataObject) -> None:
    for verb in FORMS:
        action = data.draw(typed(verb))
        target = correct(turn(data.draw(WRONG), str(action)))["chosen"]
        assert parse_action(parse_reply(reply_text(target)).action) == action


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_what_the_teacher_meant_is_what_the_correction_teaches(seed: int) -> None:
    table, random, rules = Table("skiff", seed), Random(seed), MaroonedRules()
    for sailor in table.world.living:
        observation = table.observation(sailor.name)
        prompt = Prompt(sailor.name, sailor.role, (), observation)
        for legal in rules.legal_actions(observation):
            broken = random.choice([legal.lower(), legal.replace(" ", ""), f"**{legal}**", f"{legal}."])
            verdict = RulesTeacher(rules).judge([Attempt.of(prompt, f"REASONING: hm\nACTION: {broken}")])[0]
            if verdict.valid:
                continue
            chosen = parse_reply(reply_text(correct(turn(broken, verdict.action))["chosen"]))
            assert chosen == Reply("I answer in the typed form.", verdict.action)
            assert verdict.action.split(" ", 1)[0] in (legal.split(" ", 1)[0], "MOVE")


def test_the_teachers_reasoning_replaces_what_led_astray() -> None:
    correction = correct(replace(turn("REASONING: ready\nACTION: BUILD hull", "MOVE EAST"), reasoning="camp EAST"))
    assert (reply_text(correction["completion"]), correction["kept"]) == ("REASONING: camp EAST\nACTION: MOVE EAST", "")


def test_a_mistake_is_replaced_as_a_whole() -> None:
    mistake = replace(turn("REASONING: ready\nACTION: WAIT", "WAIT", valid=True), better="BUILD hull", reasoning="now")
    correction = correct(mistake)
    assert (reply_text(correction["completion"]), correction["kept"]) == ("REASONING: now\nACTION: BUILD hull", "")
    assert corrected(mistake) and not corrected(replace(mistake, better=""))
    with pytest.raises(ValueError, match="a turn that stands"):
        correct(replace(mistake, better=""))
    with pytest.raises(ValueError, match="does not read back"):
        correct(turn("", "SAY one\nACTION: WAIT"))


def test_a_pair_is_what_the_policy_reads_and_writes() -> None:
    _, tokenizer = student()
    correction = correct(turn("REASONING: a\nACTION: GO", "RIGHT"))
    pair = correction_pair(tokenizer, correction)
    assert pair["prompt_ids"] == tokenizer.prompt(correction["prompt"])
    assert pair["chosen_ids"] == tokenizer.reply("REASONING: a\nACTION: RIGHT")
    assert pair["rejected_ids"] == tokenizer.reply("REASONING: a\nACTION: GO")


@pytest.mark.parametrize(
    ("wrong", "learned"),
    [
        ("REASONING: a\nACTION: GO LEFT", " RIGHT<|end|>"),
        ("REASONING: a", "\nACTION: RIGHT<|end|>"),
        ("RIGHT away", "REASONING: I answer in the typed form.\nACTION: RIGHT<|end|>"),
    ],
)
def test_only_what_the_student_got_wrong_is_learned(wrong: str, learned: str) -> None:
    _, tokenizer = student()
    correction = correct(turn(wrong, "RIGHT"))
    prompt, target, flags = correction_tokens(tokenizer, correction)
    assert tokenizer.tokenizer.decode(prompt) == "<|user|>prompt<|end|><|assistant|>"
    assert tokenizer.tokenizer.decode(target) == f"{reply_text(correction['completion'])}<|end|>"
    assert tokenizer.tokenizer.decode([token for token, flag in zip(target, flags, strict=True) if flag]) == learned
    assert flags == sorted(flags)


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), st.text())
@settings(max_examples=100)
def test_a_reply_reads_back(reasoning: str, action: str) -> None:
    parts = [" ".join(part.split("\n")).strip() for part in (reasoning, action)]
    assert parse_reply(str(Reply(*parts))) == Reply(*parts)


def test_the_first_of_each_part_counts() -> None:
    reply = parse_reply("ACTION: WAIT\nREASONING: a\nACTION: MOVE EAST\n  ACTION: no")
    assert reply == Reply("a", "WAIT")
    assert parse_reply("action: WAIT\nACTION:WAIT") == Reply("", "")
