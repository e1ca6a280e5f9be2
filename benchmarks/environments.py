"""Steps and prompts a second of MAROONED, played by its scripted sailors, whose own thinking is not counted.

A step is one turn of all living sailors, with a prompt rendered for each of them.
"""

from __future__ import annotations

from time import perf_counter

from castaway.envs.marooned.environment import MaroonedEnvironment, expert
from castaway.report import table

GAMES = (("skiff", "compact"), ("skiff", "full"), ("classic", "compact"), ("classic", "full"))


def environment_table(seconds: float) -> str:
    rows = []
    for scenario, rendering in GAMES:
        steps, prompts, spent = play(scenario, rendering, seconds)
        rows.append([f"{scenario}, {rendering}", f"{steps / spent:,.0f}", f"{prompts / spent:,.0f}"])
    return "One process, one core.\n\n" + table(["game", "steps/s", "prompts/s"], rows)


def play(scenario: str, rendering: str, seconds: float) -> tuple[int, int, float]:
    """Steps, prompts, and the seconds that the environment took for them, once they are `seconds`."""
    environment = MaroonedEnvironment(scenario, rendering)
    steps = prompts = game = 0
    spent = 0.0
    environment.reset(game, "all")
    while spent < seconds:
        if environment.done:
            game += 1
            environment.reset(game, "all")
        began = perf_counter()
        asked = environment.prompts()
        spent += perf_counter() - began
        actions = {prompt.agent: expert(prompt).action for prompt in asked}
        began = perf_counter()
        environment.step(actions)
        spent += perf_counter() - began
        steps += 1
        prompts += len(asked)
    return steps, prompts, spent
