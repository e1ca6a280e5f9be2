"""Scripted play, and the length of what a tiny model has to read."""

from random import Random

import pytest

from castaway.bases.tiny import train_tokenizer
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import waiter, worker
from castaway.models.tokens import ChatTokenizer
from tests.castaway.tools.marooned.test_balance import play


def test_workers_beat_an_idle_traitor_and_waiters_beat_nobody() -> None:
    assert sum(play(seed, waiter, worker).world.winner == "crew" for seed in range(40)) >= 30
    assert not any(play(seed, waiter, waiter).world.winner == "crew" for seed in range(20))


def test_the_compact_text_is_short_whatever_is_said() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(2)
    prompts = []
    for task_id in range(12):
        environment.reset(task_id, "all")
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                prompts.append(prompt)
                talk = f"SAY {''.join(random.choices('abcdefghij ÄéxyzXYZ0123456789', k=30)).strip()}"
                legal = random.choice(environment.rules.legal_actions(prompt.observation))
                actions[prompt.agent] = talk if random.random() < 0.3 else legal
            environment.step(actions)
    texts = [message["content"] for prompt in prompts for message in prompt.messages]
    tokenizer = ChatTokenizer(train_tokenizer((text for text in texts if " says " not in text), 1024))
    assert max(len(tokenizer.prompt(prompt.messages)) for prompt in prompts) <= 200


def test_seats_hand_over_their_own_side_whose_victory_is_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castaway.envs.marooned.environment.role_script", lambda role: waiter)
    for seat, roles, success in (
        ("crew", ["colonist"] * 4, False),
        ("traitor", ["traitor"], True),
        ("all", ["colonist"] * 4 + ["traitor"], False),
    ):
        environment = MaroonedEnvironment("skiff", "compact")
        environment.reset(9, seat)
        assert sorted(prompt.role for prompt in environment.prompts()) == roles
        while not environment.done:
            environment.step({})
        assert environment.outcome().success is success
