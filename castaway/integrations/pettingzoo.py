"""MAROONED as a PettingZoo `ParallelEnv`.

    environment = MaroonedParallel("skiff", "full")
    observations, infos = environment.reset(seed=7)
    while environment.agents:
        actions = {agent: my_policy(observations[agent]) for agent in environment.agents}
        observations, rewards, terminations, truncations, infos = environment.step(actions)

An observation is the text of the sailor's prompt. An action is text such as `GATHER WOOD_1`; an illegal one is replaced
by waiting. The seed is the task id: the same seed and actions give the same texts and rewards. An info contains the
sailor's `role`, its chat `messages` and its `legal` actions; `action_space(agent).sample(legal)` chooses one of these.

A sailor that dies or is ejected terminates at once, all others at the end of the game.
"""

from collections.abc import Sequence
from string import printable
from typing import Any

from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.environment import Prompt

LONGEST = 65_536  # maximum length of an observation or action, in characters

Infos = dict[str, dict[str, Any]]
Step = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]


class AnyText(Text):
    """A space of all strings up to `LONGEST` characters; it samples short ASCII strings, or one of given strings."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(max_length=64, min_length=0, charset=printable, seed=seed)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= LONGEST

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask:
            return str(mask[int(self.np_random.integers(len(mask)))])
        return str(super().sample())


class MaroonedParallel(ParallelEnv[str, str, str]):
    """Games of one scenario of MAROONED; the module describes observations and actions."""

    metadata = {"name": "marooned_v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, scenario: str = "skiff", rendering: str = "full", seat: str = "all") -> None:
        """Play the sailors of `seat` (`all`, `crew` or `traitor`); scripts play the others."""
        self._game = MaroonedEnvironment(scenario, rendering)
        self._seat = seat
        self._next = 0
        self.render_mode = None
        self.possible_agents = list(self._game.agents)
        self.agents: list[str] = []
        self._spaces = {agent: AnyText() for agent in self.possible_agents}

    def observation_space(self, agent: str) -> AnyText:
        """Always the same object, as PettingZoo requires."""
        return self._spaces[agent]

    action_space = observation_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, str], Infos]:
        """Start the game with the task id `seed`, by default the one after the last. Options are ignored."""
        task_id = self._next if seed is None else seed
        self._game.reset(task_id, self._seat)
        self._next = task_id + 1
        prompts = self._game.prompts()
        self.agents = [prompt.agent for prompt in prompts]
        return self._observations(prompts, self.agents)

    def step(self, actions: dict[str, str]) -> Step:
        """Play one turn of all living sailors; a sailor without an action waits."""
        playing = self.agents
        rewards = self._game.step({agent: str(actions[agent]) for agent in playing if agent in actions})
        prompts = self._game.prompts()
        self.agents = [prompt.agent for prompt in prompts]  # every living sailor of the seat has a prompt in every turn
        observations, infos = self._observations(prompts, playing)
        ended = {agent: agent not in self.agents for agent in playing}
        return observations, {agent: rewards[agent] for agent in playing}, ended, dict.fromkeys(playing, False), infos

    def _observations(self, prompts: Sequence[Prompt], agents: Sequence[str]) -> tuple[dict[str, str], Infos]:
        asked = {prompt.agent: prompt for prompt in prompts}
        observations, infos = dict.fromkeys(agents, ""), {agent: dict[str, Any]() for agent in agents}
        for agent in agents:
            if prompt := asked.get(agent):
                observations[agent] = "\n\n".join(message["content"] for message in prompt.messages)
                legal = self._game.rules.legal_actions(prompt.observation)
                infos[agent] = {"role": prompt.role, "messages": list(prompt.messages), "legal": legal}
        return observations, infos
