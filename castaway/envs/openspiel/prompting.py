"""Turns an observation into chat messages, in one of three renderings.

- `full`: in the system message the rules, how to answer, and an example, the same in every turn of a variant, so that
  a server computes them once; then the position as people draw it and the legal moves by name;
- `compact`: without the rules, in the words of `castaway.envs.openspiel.compact`, for small models;
- `assisted`: like `compact`; in games with perfect information it also names the moves that win at once, or else, if
  only some moves are safe, those that do not allow the opponent to win at once. It does not choose a move.
"""

from __future__ import annotations

from functools import cache

from castaway.envs.openspiel import full
from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.compact import menu, situation
from castaway.envs.openspiel.expert import best_move
from castaway.envs.openspiel.games import load_variant
from castaway.envs.openspiel.naming import names
from castaway.envs.openspiel.observation import Observation, observe
from castaway.envs.openspiel.players import with_move
from castaway.envs.openspiel.tactics import judgement
from castaway.tasks.environment import Message


def messages(observation: Observation) -> tuple[Message, ...]:
    """The chat messages for an observation, in its rendering."""
    game = observation.game
    if observation.rendering == "full":
        system, user = _system(GAMES.index(game), observation.variant), full.user_text(observation)
    else:
        called = names(observation)
        system = f"{game.name} {game.variants[observation.variant].name} {game.side(observation.seat)}"
        user = "\n".join([situation(observation), *_threats(observation, called), menu(called)])
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


@cache
def _system(game: int, variant: int) -> str:
    """The system message of the full rendering; the example is the expert's first move."""
    state = load_variant(GAMES[game], variant).new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    first = observe(GAMES[game], variant, state.current_player(), state, "full")
    return "\n".join(
        [
            f"You play {full.title(first)}. {full.rules(first)}",
            "Answer in two lines: a short reason, and one move as it is written in the list of moves. For example:",
            str(with_move(first, best_move(first))),
        ]
    )


def _threats(observation: Observation, called: tuple[str, ...]) -> list[str]:
    if observation.rendering != "assisted":
        return []
    judged = judgement(observation)
    if judged.wins:
        return [" ".join(["wins", *(called[at] for at in judged.wins)])]
    if 0 < len(judged.safe) < len(called):
        return [" ".join(["safe", *(called[at] for at in judged.safe)])]
    return []
