"""Scripted play, and the length of what a tiny model has to read."""

from random import Random

import pytest

from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.players import demonstrator, expert
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import Script, Typist, Waiter, Worker
from castaway.errors import CastawayError
from castaway.models.tiny import train_tokenizer
from castaway.models.tokens import ChatTokenizer


def winner(scenario: str, seed: int, crew: Script, traitor: Script) -> str:
    game = Game(load_scenario(scenario), seed)
    while not game.over:
        game.step(
            {
                sailor.name: (traitor if sailor.role == "traitor" else crew)(game.observation(sailor.name)).action
                for sailor in game.world.living
            }
        )
    return game.world.winner


def test_workers_beat_an_idle_traitor_and_waiters_beat_nobody() -> None:
    assert sum(winner("skiff", seed, Worker(), Waiter()) == "crew" for seed in range(40)) >= 30
    assert not any(winner("skiff", seed, Waiter(), Waiter()) == "crew" for seed in range(40))


def test_random_typing_hardly_ever_wins() -> None:
    random = Random(1)
    assert sum(winner("skiff", seed, Typist(random), Typist(random)) == "crew" for seed in range(40)) <= 4


def test_experts_and_demonstrators_type_legal_actions() -> None:
    environment, random = MaroonedEnvironment("skiff", "compact"), Random(3)
    play = demonstrator(random, 0.5)
    environment.reset(4, "all")
    while not environment.done:
        actions = {}
        for prompt in environment.prompts():
            for reply in (expert(prompt), play(prompt)):
                assert environment.rules.refusal(prompt.observation, reply.action) is None
                assert reply.reasoning
                actions[prompt.agent] = reply.action
        environment.step(actions)


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


def test_an_unknown_scenario_is_named() -> None:
    with pytest.raises(CastawayError, match="there is no scenario 'raft': choose one of classic, skiff"):
        load_scenario("raft")


def test_seats_hand_over_their_own_side() -> None:
    environment = MaroonedEnvironment("skiff", "compact")
    for seat, count, roles in (("crew", 4, {"colonist"}), ("traitor", 1, {"traitor"})):
        environment.reset(9, seat)
        prompts = environment.prompts()
        assert len(prompts) == count and {prompt.role for prompt in prompts} == roles
    environment.reset(9, "all")
    assert len(environment.prompts()) == 5


def test_success_is_the_victory_of_the_own_side() -> None:
    for seat, success in (("crew", False), ("traitor", True), ("all", False)):
        environment = MaroonedEnvironment("skiff", "compact", lambda role, random: Waiter())
        environment.reset(0, seat)
        while not environment.done:
            environment.step({})
        assert environment.outcome().success is success
