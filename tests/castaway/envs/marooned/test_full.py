"""The full rendering: one system message for a scenario, and short user messages, however long a game has lasted."""

import re
from functools import cache
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.envs.marooned import full
from castaway.envs.marooned.actions import FORMS, legal_actions
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.full import in_words
from castaway.envs.marooned.observation import Observation
from castaway.envs.marooned.scripted import AIMLESS
from castaway.envs.marooned.task import Marooned, MaroonedParams
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import parse_reply

LONGEST = {"skiff": 820, "classic": 1250}
"""Characters of a user message; SmolLM2 reads 2.7 of them as a token where there are most: 300 tokens on the skiff."""
TALK = "I was at the camp all day and I saw Bob beside the hull, we must vote him out!!!"


def task(scenario: str) -> Marooned:
    return Marooned(MaroonedParams.model_validate({"scenario": scenario, "rendering": "full", "traitor_share": 0.2}))


def met(scenario: str, seed: int, turns: int) -> list[Prompt]:
    """The prompts of a game of sailors that work, talk much, accuse and do odd things."""
    environment, expert, random, found = MaroonedEnvironment(scenario, "full"), task(scenario).expert, Random(seed), []
    environment.reset(seed, "all")
    for _ in range(turns):
        actions = {}
        for prompt in environment.prompts():
            found.append(prompt)
            drawn, legal = random.random(), legal_actions(prompt.observation)
            odd = TALK if scenario == "skiff" else TALK * 6
            actions[prompt.agent] = (
                f"SAY {odd}" if drawn < 0.2 else random.choice(legal) if drawn < 0.5 else expert(prompt).action
            )
        if environment.done:
            break
        environment.step(actions)
    return found


@cache
def system_of(scenario: str) -> str:
    return met(scenario, 0, 1)[0].messages[0]["content"]


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_a_prompt_is_short_and_its_system_message_the_same_for_all(scenario: str, seed: int) -> None:
    for prompt in met(scenario, seed, 40):
        system, user = prompt.messages
        assert system["content"] == system_of(scenario)
        assert len(user["content"]) <= LONGEST[scenario], user["content"]
        assert user["content"].startswith(f"You are {prompt.agent}, ")
        assert ("the traitor" in user["content"].split(".")[0]) == (prompt.role == "traitor")


def listed(observation: Observation) -> set[str]:
    """The actions that `Legal now` lists, as typed; talk is apart."""
    line = full.user_text(observation).rpartition("Legal now: ")[2].rstrip(".")
    found = set()
    for part in line.split("; "):
        words = part.split(" ")
        alternatives = [[words.pop(0)]]
        # `ACCUSE or VOTE Bob, Eve`, `GIVE Bob or Eve wood 4, apple 1`
        while words[:1] == ["or"]:
            alternatives[0].append(words[1])
            del words[:2]
        if alternatives == [["GIVE"]]:
            alternatives.append([words.pop(0)])
            while words[:1] == ["or"]:
                alternatives[1].append(words[1])
                del words[:2]
        alternatives.append(" ".join(words).split(", "))
        found |= {" ".join(filter(None, chosen)) for chosen in product(*alternatives)}
    return (found | {"WAIT"}) - {"SAY", "TELL"}


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_what_is_listed_can_be_typed_and_only_its_like_is_left_out(scenario: str, seed: int) -> None:
    rules = MaroonedEnvironment(scenario, "full").rules
    for prompt in met(scenario, seed, 25):
        seen, shown = prompt.observation, listed(prompt.observation)
        assert all(rules.refusal(seen, action) is None for action in shown)
        for action in set(legal_actions(seen)) - shown:
            # A smaller amount of the same, or another pile of the same resource.
            assert FORMS[action.split()[0]][-1] in ("amount", "pile")
            start, amount = re.findall(r"(.+[ _])(\d+)", action)[0]
            like = [other for other in shown if re.fullmatch(rf"{start}\d+", other)]
            assert any("GATHER" in other or int(other.split()[-1]) > int(amount) for other in like)
        assert ("SAY or TELL" in prompt.messages[1]["content"]) == (rules.refusal(seen, "SAY hello") is None)


@pytest.mark.parametrize("scenario", ["skiff", "classic"])
def test_demonstrations_answer_in_sentences_and_in_the_form_of_the_example(scenario: str) -> None:
    of, random = task(scenario), Random(3)
    play = of.demonstrator(random, 0.3)
    rules = MaroonedEnvironment(scenario, "full").rules
    example = parse_reply(system_of(scenario))
    assert example.reasoning == in_words("camp WEST") and example.action == "MOVE WEST"
    said = set()
    for prompt in met(scenario, 5, 30):
        for reply in (of.expert(prompt), play(prompt)):
            assert parse_reply(str(reply)) == reply and rules.refusal(prompt.observation, reply.action) is None
            said |= {reply.reasoning, rules.reason(prompt.observation, reply.action)}
    assert all(text[0].isupper() and text.endswith(".") for text in said)
    assert len(said) > 8 and in_words(AIMLESS) in said
