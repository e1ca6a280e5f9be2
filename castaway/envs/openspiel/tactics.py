"""A few moves ahead, in games with nothing to hide: what wins, what is safe, and what cannot be answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import load_variant
from castaway.envs.openspiel.observation import Observation

FORCING = 9
"""The longest menu whose moves are looked at for what the other side cannot answer: that takes the cube of it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Places in the menu, from 0."""

    wins: tuple[int, ...] = ()
    """Moves that win at once."""
    safe: tuple[int, ...] = ()
    """Moves after which the other side has not won and cannot win at once."""
    forcing: tuple[int, ...] = ()
    """Safe moves after which the player can win at once, whatever the other side does."""


def position(name: str, variant: int, history: tuple[int, ...]) -> Any:
    """OpenSpiel's state after `history`, in a game with nothing to hide."""
    game = next(game for game in GAMES if game.name == name)
    state = load_variant(game, variant).new_initial_state()
    for action in history:
        state.apply_action(action)
    return state


def judgement(observation: Observation) -> Judgement:
    """What can be told of the moves of a menu; nothing where something is hidden or left to chance."""
    if not observation.game.open:
        return Judgement()
    return judge(observation.game.name, observation.variant, observation.history)


@lru_cache(maxsize=2**16)  # small games begin in few ways
def judge(name: str, variant: int, history: tuple[int, ...]) -> Judgement:
    """Look at every move of the player whose turn it is after `history`."""
    state = position(name, variant, history)
    player = state.current_player()
    children = [state.child(action) for action in state.legal_actions()]
    wins = tuple(at for at, child in enumerate(children) if _won(child, player))
    safe = tuple(at for at, child in enumerate(children) if not _can_be_lost(child, player))
    few = len(children) <= FORCING and not wins
    return Judgement(wins, safe, tuple(at for at in safe if few and _cannot_be_answered(children[at], player)))


def _won(state: Any, player: int) -> bool:
    return bool(state.is_terminal() and state.returns()[player] > 0)


def _can_win(state: Any, player: int) -> bool:
    """Whether the player is to move and can win at once."""
    return state.current_player() == player and any(_won(state.child(a), player) for a in state.legal_actions())


def _can_be_lost(state: Any, player: int) -> bool:
    """Whether the player has lost, or the other side is to move and can win at once."""
    if state.is_terminal():
        return bool(state.returns()[player] < 0)
    other = state.current_player()
    return other != player and _can_win(state, other)


def _cannot_be_answered(state: Any, player: int) -> bool:
    """Whether the other side is to move and every reply of it leaves the player a win at once."""
    if state.is_terminal() or state.current_player() == player:
        return False
    return all(_can_win(state.child(action), player) for action in state.legal_actions())
