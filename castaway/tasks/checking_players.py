"""The players with which `castaway.tasks.checker` plays an environment: at random, as recorded, and with nonsense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from castaway.tasks.environment import Prompt, TextEnvironment

NONSENSE = ("", " ", "\n", "no such action", "\x00\u2028\U0001f3dd", "a" * 2000, "**WAIT**", "1 2 3", "{}", "'; --")
"""Texts that `repair` must turn into a legal action."""
FREE_WORDS = ("I agree.", "no such action", "[1]")
"""What the checker says where no legal actions are listed."""

Choose = Callable[[TextEnvironment, Sequence[Prompt]], dict[str, str]]
"""Typed actions by agent, for these prompts."""


def random_legal(seed: int) -> Choose:
    """Draws legal actions."""
    random = Random(seed)
    return lambda environment, prompts: {prompt.agent: random.choice(legal(environment, prompt)) for prompt in prompts}


def legal(environment: TextEnvironment, prompt: Prompt) -> tuple[str, ...]:
    """The listed legal actions, or a few words where any text is legal."""
    return environment.rules.legal_actions(prompt.observation) or FREE_WORDS


def recorded(actions: Sequence[dict[str, str]]) -> Choose:
    """Repeats recorded actions; if the episode goes on after the last one, no actions."""
    remaining = iter(actions)
    return lambda environment, prompts: next(remaining, {})


def nonsense(seed: int) -> Choose:
    """Illegal texts, some of them very close to a legal action."""
    random = Random(seed)

    def choose(environment: TextEnvironment, prompts: Sequence[Prompt]) -> dict[str, str]:
        chosen = {}
        for prompt in prompts:
            rules = environment.rules
            near = garbled(random.choice(legal(environment, prompt)), random.randrange(4))
            texts = [near, random.choice(NONSENSE), "no such action"]
            # In an environment that accepts any text all of these may be legal; idle then leaves the comparison valid.
            chosen[prompt.agent] = next(
                (text for text in texts if rules.refusal(prompt.observation, text)), environment.idle
            )
        return chosen

    return choose


def garbled(action: str, how: int) -> str:
    """A legal action with one small change; `how` selects which of four."""
    return (action.lower(), f"{action} ", action[1:], f"{action}!")[how % 4]
