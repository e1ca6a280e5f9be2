"""Turns an observation into chat messages, in one of three renderings.

- `full`: the rules of the game in one line, OpenSpiel's own text of the state, and a line for each move;
- `compact`: without the rules, in the words of `castaway.envs.openspiel.compact`, for small models;
- `assisted`: like `compact`; in games with perfect information it also names the moves that win at once, or else, if
  only some moves are safe, those that do not allow the opponent to win at once. It does not choose a move.
"""

from __future__ import annotations

from castaway.envs.openspiel.compact import menu, names, situation
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.tactics import judgement
from castaway.tasks.environment import Message


def messages(observation: Observation) -> tuple[Message, ...]:
    """The chat messages for an observation, in its rendering."""
    game = observation.game
    variant = game.variants[observation.variant].name
    called = names(observation)
    if observation.rendering == "full":
        numbered = [f"{number}: {name}" for number, name in enumerate(called, 1)]
        lines = [game.line, observation.text, "Moves:", *numbered]
        system = f"You are {game.side(observation.seat)} in {game.name}, {variant}"
    else:
        lines = [situation(observation), *_threats(observation, called), menu(called)]
        system = f"{game.name} {variant} {game.side(observation.seat)}"
    return ({"role": "system", "content": system}, {"role": "user", "content": "\n".join(lines)})


def _threats(observation: Observation, called: tuple[str, ...]) -> list[str]:
    if observation.rendering != "assisted":
        return []
    judged = judgement(observation)
    if judged.wins:
        return [" ".join(["wins", *(called[at] for at in judged.wins)])]
    if 0 < len(judged.safe) < len(called):
        return [" ".join(["safe", *(called[at] for at in judged.safe)])]
    return []
