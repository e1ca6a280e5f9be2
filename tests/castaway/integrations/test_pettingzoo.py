"""MAROONED as PettingZoo's own tests see it."""

import warnings
from random import Random

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.integrations.pettingzoo import LONGEST, AnyText, MaroonedParallel


@pytest.mark.parametrize("rendering", ["compact", "full"])
def test_pettingzoo_is_content(rendering: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(MaroonedParallel("skiff", rendering), num_cycles=300)
        parallel_seed_test(lambda: MaroonedParallel("skiff", rendering), num_cycles=100)


def test_a_long_random_run_ends_each_sailor_once() -> None:
    environment, random = MaroonedParallel("skiff", "compact"), Random(4)
    endings = set()
    for seed in range(60):
        observations, infos = environment.reset(seed=seed)
        ended: set[str] = set()
        while environment.agents:
            actions = {}
            for agent in environment.agents:
                space = environment.action_space(agent)
                assert observations[agent] in environment.observation_space(agent)
                legal = infos[agent]["legal"]
                votes = [text for text in legal if "VOTE" in text]  # else nobody would ever be ejected
                actions[agent] = space.sample((votes[:1] or legal) if random.random() < 0.9 else None)
                assert actions[agent] in space
            playing = set(environment.agents)
            observations, rewards, terminations, truncations, infos = environment.step(actions)
            assert playing == set(observations) == set(rewards) == set(terminations) == set(truncations) == set(infos)
            out = {agent for agent, yes in terminations.items() if yes}
            assert not out & ended and not any(truncations.values())
            ended |= out
        assert ended == set(environment.possible_agents)
        endings.add(environment._game.outcome().ending)
    assert len(endings) >= 2


@pytest.mark.parametrize("seat", ["crew", "traitor", "all"])
def test_it_is_the_same_game(seat: str) -> None:
    parallel, plain = MaroonedParallel("skiff", "full", seat), MaroonedEnvironment("skiff", "full")
    observations, infos = parallel.reset(seed=5)
    plain.reset(5, seat)
    while not plain.done:
        prompts = {prompt.agent: prompt for prompt in plain.prompts()}
        assert list(prompts) == parallel.agents
        for agent, prompt in prompts.items():
            assert infos[agent]["messages"] == list(prompt.messages)
            assert observations[agent] == "\n\n".join(message["content"] for message in prompt.messages)
        actions = {agent: infos[agent]["legal"][0] for agent in prompts}
        paid = plain.step(actions)
        observations, rewards, _, _, infos = parallel.step(actions)
        assert rewards == {agent: paid[agent] for agent in prompts}
    assert parallel.agents == []


def test_without_a_seed_the_next_game_is_played() -> None:
    environment = MaroonedParallel()
    first, _ = environment.reset(seed=8)
    second, _ = environment.reset()
    assert second == MaroonedParallel().reset(seed=9)[0] != first
    with pytest.raises(ValueError, match="no episode -1"):
        environment.reset(seed=-1)


def test_the_space_of_texts() -> None:
    space = AnyText(seed=1)
    assert "\u2603 any\n" in space and "x" * LONGEST in space
    assert "x" * (LONGEST + 1) not in space and 3 not in space
    assert space.sample(["WAIT"]) == "WAIT"
    assert [AnyText(seed=2).sample() for _ in range(3)] == [AnyText(seed=2).sample() for _ in range(3)]
