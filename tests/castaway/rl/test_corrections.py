"""A correction reads back as the action that the teacher meant, for every action there is."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned.actions import FORMS, parse_action
from castaway.envs.marooned.conduct import read
from castaway.envs.marooned.teaching import MaroonedRules
from castaway.rl.corrections import (
    confirms,
    correct,
    corrected,
    correction_pair,
    correction_tokens,
    read_corrections,
    write_corrections,
)
from castaway.rl.trajectory import Turn
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply, parse_reply
from castaway.teacher.base import Attempt
from castaway.teacher.rules import RulesTeacher
from tests.castaway.envs.marooned.tables import Table
from tests.castaway.envs.marooned.test_actions import typed
from tests.castaway.rl.small import student

WRONG = st.text(max_size=60) | st.text(max_size=30).map(lambda text: f"REASONING: {text}\nACTION: MOVING")


def turn(text: str, action: str, valid: bool = False) -> Turn:
    return Turn(
        messages=({"role": "user", "content": "prompt"},),
        prompt_tokens=[],
        reply_tokens=[],
        logprobs=[],
        values=[],
        text=text,
        reply=parse_reply(text),
        action=action,
        valid=valid,
        penalty=-1.0,
        critique="No.",
    )


def test_a_move_that_the_teacher_would_play_too_is_confirmed() -> None:
    own = turn("REASONING: so\nACTION: WAIT", "WAIT", valid=True)
    same, other = (correct(replace(own, better=action, reasoning="rest")) for action in ("WAIT", "SOS"))
    assert (same.target, confirms(same)) == ("REASONING: rest\nACTION: WAIT", True)
    assert not confirms(other) and corrected(replace(own, better="WAIT")) and not corrected(own)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_every_action_there_is_reads_back(data: st.DataObject) -> None:
    for verb in FORMS:
        action = data.draw(typed(verb))
        target = correct(turn(data.draw(WRONG), str(action))).target
        assert parse_action(parse_reply(target).action) == action


def test_every_legal_action_of_every_verb_reads_back_as_meant() -> None:
    rules, found = MaroonedRules(), set()
    for phase in ("exploration", "discussion"):
        for vote in (False, True):
            table = Table().phase(phase)
            traitor = table.put(table.traitor, wood=2, poison=1, antidote_herb=1, apple=1)
            stair = next(iter(place for place in table.world.stairs if place[0] == "ground"))
            table.lay("WOOD_99", "wood", table.world.camp)
            table.world.store, table.world.ship["supplies"] = {"wood": 10, "metal": 1}, 20
            table.world.accused = {traitor.name}
            for mate in table.colonists:
                mate.poisoned_on = 0
            if vote:
                table.do(**{table.colonists[0].name: f"{'CALL_VOTE' if phase == 'discussion' else 'TELL'} "
                            f"{traitor.name}{'' if phase == 'discussion' else ' hello'}"})  # fmt: skip
            for place in (table.world.camp, stair):
                table.put(traitor, place)
                observation = table.observation(traitor.name)
                talk = ["SAY ACTION: WAIT", "SAY I am at (3,4)", f"TELL {table.colonists[0].name} MESSAGE: hm"]
                for text in [*rules.legal_actions(observation), *talk]:
                    target = correct(turn("gibberish", text)).target
                    action, refusal = read(observation, parse_reply(target).action)
                    assert refusal is None and str(action) == text
                    found.add(text.split(" ", 1)[0])
    assert found == {*FORMS}


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=15)
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
            assert parse_reply(correct(turn(broken, verdict.action)).target) == Reply(
                "I answer in the typed form.", verdict.action
            )
            assert verdict.action.split(" ", 1)[0] in (legal.split(" ", 1)[0], "MOVE")


def test_the_teachers_reasoning_replaces_what_led_astray() -> None:
    astray = replace(turn("REASONING: ready\nACTION: BUILD hull", "MOVE EAST"), reasoning="camp EAST")
    correction = correct(astray)
    assert (correction.target, correction.kept) == ("REASONING: camp EAST\nACTION: MOVE EAST", "")


def test_a_mistake_is_replaced_as_a_whole() -> None:
    mistake = replace(turn("REASONING: ready\nACTION: WAIT", "WAIT", valid=True), better="BUILD hull", reasoning="now")
    correction = correct(mistake)
    assert (correction.target, correction.kept) == ("REASONING: now\nACTION: BUILD hull", "")
    assert corrected(mistake) and not corrected(replace(mistake, better=""))
    with pytest.raises(ValueError, match="a turn that stands"):
        correct(replace(mistake, better=""))


def test_a_pair_is_what_the_policy_reads_and_writes() -> None:
    _, tokenizer = student()
    correction = correct(turn("REASONING: a\nACTION: GO", "RIGHT"))
    pair = correction_pair(tokenizer, correction)
    assert pair["prompt_ids"] == tokenizer.prompt(correction.messages)
    assert pair["chosen_ids"] == tokenizer.reply("REASONING: a\nACTION: RIGHT")
    assert pair["rejected_ids"] == tokenizer.reply("REASONING: a\nACTION: GO")


def test_the_students_reasoning_is_kept() -> None:
    correction = correct(turn("REASONING:  wood is near \nACTION: GO", "MOVE EAST"))
    assert correction.target == "REASONING: wood is near\nACTION: MOVE EAST"
    assert (correction.wrong, correction.critique, correction.penalty) == (
        "REASONING:  wood is near \nACTION: GO", "No.", -1.0
    )  # fmt: skip


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
    assert tokenizer.tokenizer.decode(target) == f"{correction.target}<|end|>"
    assert tokenizer.tokenizer.decode([token for token, flag in zip(target, flags, strict=True) if flag]) == learned
    assert flags == sorted(flags)


def test_a_valid_turn_and_an_action_that_is_lost_are_refused() -> None:
    with pytest.raises(ValueError, match="stands"):
        correct(turn("ACTION: WAIT", "WAIT", valid=True))
    with pytest.raises(ValueError, match="does not read back"):
        correct(turn("", "SAY one\nACTION: WAIT"))


def test_corrections_come_back_from_disk(tmp_path: Path) -> None:
    corrections = [correct(turn("Ünsinn \u2028", "SAY Ahoi, ihr Späher")), correct(turn("", "WAIT"))]
    write_corrections(tmp_path / "corrections.jsonl", corrections)
    assert read_corrections(tmp_path / "corrections.jsonl") == corrections


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), st.text(), st.text())
@settings(deadline=None, max_examples=100)
def test_a_reply_reads_back(reasoning: str, action: str, message: str) -> None:
    parts = [" ".join(part.split("\n")).strip() for part in (reasoning, action, message)]
    assert parse_reply(str(Reply(*parts))) == Reply(*parts)


def test_the_first_of_each_part_counts() -> None:
    reply = parse_reply("ACTION: WAIT\nREASONING: a\nACTION: MOVE EAST\nMESSAGE: hello\n  ACTION: no")
    assert reply == Reply("a", "WAIT", "hello")
    assert parse_reply("action: WAIT\nACTION:WAIT") == Reply("", "")
