"""One move ahead, in games with nothing to hide: the only strategy that a teacher of all games can be sure of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.games import load_variant


@dataclass(frozen=True, slots=True)
class Judgement:
    """Places in the menu, from 0."""

    wins: tuple[int, ...]
    """Moves that win at once."""
    safe: tuple[int, ...]
    """Moves after which the other side has not won and cannot win at once."""


@lru_cache(maxsize=256)
def judge(name: str, variant: int, history: tuple[int, ...]) -> Judgement:
    """Look at every move of the player whose turn it is after `history`."""
    game = next(game for game in GAMES if game.name == name)
    state = load_variant(game, variant).new_initial_state()
    for action in history:
        state.apply_action(action)
    player = state.current_player()
    children = [state.child(action) for action in state.legal_actions()]
    wins = tuple(at for at, child in enumerate(children) if _won(child, player))
    safe = tuple(at for at, child in enumerate(children) if not _can_be_lost(child, player))
    return Judgement(wins, safe)


def _won(state: Any, player: int) -> bool:
    return bool(state.is_terminal() and state.returns()[player] > 0)


def _can_be_lost(state: Any, player: int) -> bool:
    """Whether the player has lost, or the other side is to move and can win at once."""
    if state.is_terminal():
        return bool(state.returns()[player] < 0)
    other = state.current_player()
    return other != player and any(_won(state.child(action), other) for action in state.legal_actions())
