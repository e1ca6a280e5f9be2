"""MAROONED as a PettingZoo `ParallelEnv`.

    environment = MaroonedParallel("skiff", "full")
    observations, infos = environment.reset(seed=7)
    while environment.agents:
        actions = {agent: my_policy(observations[agent]) for agent in environment.agents}
        observations, rewards, terminations, truncations, infos = environment.step(actions)

An observation is the text that the sailor is shown, an action a typed action such as `GATHER WOOD_1`; anything else is
waiting. The seed is the task id: the same seed and actions give the same texts and rewards. An info holds the sailor's
`role`, its chat `messages` and its `legal` actions, which `action_space(agent).sample(legal)` draws from.

Sailors that die or are ejected terminate at once, all others when the game ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import printable
from typing import Any

from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.environment import Prompt

LONGEST = 65_536
"""No prompt and no action that is read is longer, in characters."""

Infos = dict[str, dict[str, Any]]
Step = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]


class AnyText(Text):
    """Any string up to a length. Sampled are short strings of ASCII, or one of the strings that are given."""

    def __init__(self, seed: int | None = None) -> None:
        """Draw from a generator of this seed."""
        super().__init__(max_length=64, min_length=0, charset=printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether it is a string that is not too long."""
        return isinstance(x, str) and len(x) <= LONGEST

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random string, or one of those in `mask`."""
        if mask:
            return str(mask[int(self.np_random.integers(len(mask)))])
        return str(super().sample())


class MaroonedParallel(ParallelEnv[str, str, str]):
    """A table for games of one scenario; see the module."""

    metadata = {"name": "marooned_v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, scenario: str = "skiff", rendering: str = "full", seat: str = "all") -> None:
        """Hand over the sailors of `seat`: all, the crew or the traitor; scripts play the others.

        Raises:
            CastawayError: there is no such scenario.
        """
        self._game = MaroonedEnvironment(scenario, rendering)
        self._seat = seat
        self._next = 0
        self.render_mode = None
        self.possible_agents = list(self._game.agents)
        self.agents: list[str] = []
        self._observation_spaces = {agent: AnyText() for agent in self.possible_agents}
        self._action_spaces = {agent: AnyText() for agent in self.possible_agents}

    def observation_space(self, agent: str) -> AnyText:
        """The same object each time."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> AnyText:
        """The same object each time."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, str], Infos]:
        """Start the game of the task id `seed`; without one, of the id after the last. There are no options.

        Raises:
            ValueError: the seed is negative or the seat unknown.
        """
        task_id = self._next if seed is None else seed
        self._game.reset(task_id, self._seat)
        self._next = task_id + 1
        prompts = self._game.prompts()
        self.agents = [prompt.agent for prompt in prompts]
        return self._told(prompts, self.agents)

    def step(self, actions: dict[str, str]) -> Step:
        """Play one turn of all living sailors; whoever is missing waits."""
        playing = self.agents
        rewards = self._game.step({agent: str(actions[agent]) for agent in playing if agent in actions})
        prompts = self._game.prompts()
        self.agents = [prompt.agent for prompt in prompts]  # every living sailor of the seat is asked every turn
        observations, infos = self._told(prompts, playing)
        ended = {agent: agent not in self.agents for agent in playing}
        return observations, {agent: rewards[agent] for agent in playing}, ended, dict.fromkeys(playing, False), infos

    def _told(self, prompts: Sequence[Prompt], agents: Sequence[str]) -> tuple[dict[str, str], Infos]:
        """Texts and infos; who is out is told nothing more."""
        asked = {prompt.agent: prompt for prompt in prompts}
        observations, infos = dict.fromkeys(agents, ""), {agent: dict[str, Any]() for agent in agents}
        for agent in agents:
            if prompt := asked.get(agent):
                observations[agent] = "\n\n".join(message["content"] for message in prompt.messages)
                legal = self._game.rules.legal_actions(prompt.observation)
                infos[agent] = {"role": prompt.role, "messages": list(prompt.messages), "legal": legal}
        return observations, infos
