"""Measures steps and prompts per second of MAROONED; the time of the scripted players is not counted.

A step is one turn of all living sailors, with a prompt rendered for each of them. "Nothing rendered" means that each
sailor's observation is computed, but no text.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from time import perf_counter

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.scripted import expert
from castaway.metrics.markdown import table
from castaway.tasks.environment import Prompt

GAMES = (("skiff", "compact"), ("skiff", "full"), ("classic", "compact"), ("classic", "full"))
PROCESSES = 2


@dataclass(frozen=True)
class Speed:
    """Steps and prompts of one process, and the seconds of the environment for them."""

    steps: int
    prompts: int
    seconds: float


def environment_table(seconds: float) -> str:
    header = [
        "game",
        "steps/s",
        "prompts/s",
        "steps/s, nothing rendered",
        "reset, ms",
        f"steps/s a core, {PROCESSES} processes",
        f"prompts/s a core, {PROCESSES} processes",
    ]
    rows = []
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        # Starts the processes and their imports, before anything is measured.
        list(pool.map(play, *zip(*[("skiff", "compact", True, 0.01)] * PROCESSES, strict=True)))
        for scenario, rendering in GAMES:
            alone, silent = (play(scenario, rendering, rendered, seconds) for rendered in (True, False))
            many = list(pool.map(play, *zip(*[(scenario, rendering, True, seconds)] * PROCESSES, strict=True)))
            rows.append(
                [
                    f"{scenario}, {rendering}",
                    f"{alone.steps / alone.seconds:,.0f}",
                    f"{alone.prompts / alone.seconds:,.0f}",
                    f"{silent.steps / silent.seconds:,.0f}",
                    f"{1000 * reset_seconds(scenario, rendering):.2f}",
                    f"{sum(one.steps / one.seconds for one in many) / PROCESSES:,.0f}",
                    f"{sum(one.prompts / one.seconds for one in many) / PROCESSES:,.0f}",
                ]
            )
    return "One process, one core, if nothing else is said.\n\n" + table(header, rows)


def play(scenario: str, rendering: str, rendered: bool, seconds: float) -> Speed:
    """Play until the environment alone has taken `seconds`."""
    environment = MaroonedEnvironment(scenario, rendering)
    steps = prompts = game = 0
    spent = 0.0
    environment.reset(game, "all")
    while spent < seconds:
        if environment.done:
            game += 1
            environment.reset(game, "all")
        began = perf_counter()
        asked = environment.prompts() if rendered else silent_prompts(environment)
        spent += perf_counter() - began
        actions = {prompt.agent: expert(prompt).action for prompt in asked}
        began = perf_counter()
        environment.step(actions)
        spent += perf_counter() - began
        steps += 1
        prompts += len(asked)
    return Speed(steps, prompts, spent)


def silent_prompts(environment: MaroonedEnvironment) -> list[Prompt]:
    """Every sailor's observation as a prompt without text."""
    known = [environment.observation(agent) for agent in environment.agents]
    return [Prompt(seen.name, seen.role, (), seen) for seen in known]


def reset_seconds(scenario: str, rendering: str, games: int = 50) -> float:
    """The median time of a reset, in seconds."""
    environment, found = MaroonedEnvironment(scenario, rendering), []
    for game in range(games):
        began = perf_counter()
        environment.reset(game, "all")
        found.append(perf_counter() - began)
    return median(found)
