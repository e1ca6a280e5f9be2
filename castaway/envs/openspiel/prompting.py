"""How a language model is told what a player knows.

- `full`: the game's rules on a line, OpenSpiel's own text of the state, and a line for each move;
- `compact`: without the rules, in the words of `castaway.envs.openspiel.compact`, for small models;
- `assisted`: that, and where nothing is hidden the moves that win at once, or else those that do not leave the other
  side a win at once, if there are both kinds. It names threats, as a trainer at the board would; it does not choose.
"""

from __future__ import annotations

from castaway.envs.openspiel.compact import menu, names, situation
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.tactics import judgement
from castaway.tasks.environment import Message


def messages(observation: Observation) -> tuple[Message, ...]:
    """What a language model is shown, as the observation's rendering says."""
    game = observation.game
    variant = game.variants[observation.variant].name
    called = names(observation)
    if observation.rendering == "full":
        numbered = [f"{number}: {name}" for number, name in enumerate(called, 1)]
        told = [game.line, observation.text, "Moves:", *numbered]
        system = f"You are {game.side(observation.seat)} in {game.name}, {variant}"
    else:
        told = [situation(observation), *_threats(observation, called), menu(called)]
        system = f"{game.name} {variant} {game.side(observation.seat)}"
    return ({"role": "system", "content": system}, {"role": "user", "content": "\n".join(told)})


def _threats(observation: Observation, called: tuple[str, ...]) -> list[str]:
    if observation.rendering != "assisted":
        return []
    judged = judgement(observation)
    if judged.wins:
        return [" ".join(["wins", *(called[at] for at in judged.wins)])]
    if 0 < len(judged.safe) < len(called):
        return [" ".join(["safe", *(called[at] for at in judged.safe)])]
    return []
