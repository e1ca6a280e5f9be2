"""Looks a few moves ahead in games with perfect information: moves that win, are safe, or force a win."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import load_variant
from castaway.envs.openspiel.observation import Observation

FORCING = 9
"""Longest menu in which forcing moves are searched for; the search time grows with the cube of its length."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The moves found by looking ahead, as positions in the menu from 0."""

    wins: tuple[int, ...] = ()
    """Moves that win at once."""
    safe: tuple[int, ...] = ()
    """Moves after which the opponent has not won and cannot win at once."""
    forcing: tuple[int, ...] = ()
    """Safe moves after which the player can win at once, whatever the opponent does."""


def position(name: str, variant: int, history: tuple[int, ...]) -> Any:
    """OpenSpiel's state after `history`, in a game with perfect information."""
    game = next(game for game in GAMES if game.name == name)
    state = load_variant(game, variant).new_initial_state()
    for action in history:
        state.apply_action(action)
    return state


def judgement(observation: Observation) -> Judgement:
    """The judgement of the moves of a menu; empty for games with hidden information or chance."""
    if not observation.game.open:
        return Judgement()
    return judge(observation.game.name, observation.variant, observation.history)


@lru_cache(maxsize=2**16)  # many episodes share their first moves
def judge(name: str, variant: int, history: tuple[int, ...]) -> Judgement:
    """Judge every move of the player that is to move after `history`."""
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
    """Whether the player has lost, or the opponent is to move and can win at once."""
    if state.is_terminal():
        return bool(state.returns()[player] < 0)
    other = state.current_player()
    return other != player and _can_win(state, other)


def _cannot_be_answered(state: Any, player: int) -> bool:
    """Whether the opponent is to move, and after each of its moves the player can win at once."""
    if state.is_terminal() or state.current_player() == player:
        return False
    return all(_can_win(state.child(action), player) for action in state.legal_actions())
