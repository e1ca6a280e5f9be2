"""MAROONED as PettingZoo's own tests see it."""

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.integrations.pettingzoo import MaroonedParallel


@pytest.mark.filterwarnings("error")
def test_pettingzoo_is_content() -> None:
    parallel_api_test(MaroonedParallel("skiff", "compact"), num_cycles=300)
    parallel_seed_test(lambda: MaroonedParallel("skiff", "full"), num_cycles=100)


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
