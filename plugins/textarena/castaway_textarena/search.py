"""A search on copies of an open game, to a fixed depth.

A position is a copy of the game after what was said in it; each is looked at once, and its successors are copies in
which a legal move was made. The value of a move to a player is what TextArena pays it in the end if all play for
themselves (max-n), or 0 where the depth ends first; a later reward counts a little less. In a game for one player an
end without the whole reward is worse than no end: otherwise the fall into a hole that pays a third would be a success.

The values depend on position and depth alone, so what was searched before changes nothing but the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from castaway_textarena.game import BrokenGame, Game
from castaway_textarena.moves import legal_moves

if TYPE_CHECKING:
    from castaway_textarena.observation import Observation

DISCOUNT = 0.97
"""Factor on a value for each move until it is paid."""
_MOST_POSITIONS = 60_000
"""When more are remembered, all are forgotten; it limits memory, and changes no value."""

Key = tuple[str, int, str]
"""What makes two positions the same: the game, who is to move, and what the game holds."""
Worth = tuple[float, ...]
"""The value of a position to each player."""


@dataclass(slots=True)
class _Position:
    player: int
    players: int
    worth: Worth | None
    """What was paid; None if the game goes on."""
    game: Game | None
    """A copy, until the successors are known."""
    successors: tuple[tuple[str, Key], ...] = ()


_positions: dict[Key, _Position] = {}
_values: dict[tuple[Key, int], Worth] = {}


def move_values(seen: Observation, depth: int) -> dict[str, float]:
    """The value of each legal move to the player that is to move; empty where the game may not be copied."""
    if seen.played is None or not seen.legal:
        return {}
    if len(_positions) > _MOST_POSITIONS:
        _positions.clear()
        _values.clear()
    key = _known(position(seen.game, *seen.played))
    return {move: DISCOUNT * _value(after, depth - 1)[seen.player] for move, after in _successors(key)}


def loses_at_once(seen: Observation, action: str) -> bool:
    """Whether the game is lost after this move or the next one of the others, though another move is safe."""
    found = move_values(seen, 2)
    return found.get(action, 0.0) < 0 <= max(found.values(), default=-1.0)


@lru_cache(maxsize=4096)
def position(name: str, seed: int, players: int, said: tuple[str, ...]) -> Game:
    """A copy of the game after what was said; it is shared, so that nobody may play on it."""
    if not said:
        return Game(name, seed, players)
    before = position(name, seed, players, said[:-1])
    after = before.thawed(before.frozen())
    after.step(said[-1])
    return after


def _known(game: Game) -> Key:
    """The key of a position, which is remembered."""
    board = next((text for _, text, kind in reversed(game.shown(game.player)) if kind != "PLAYER_ACTION"), "")
    key = (game.name, game.player, f"{game.env.state.game_state}{board}")
    if key not in _positions:
        _positions[key] = _Position(game.player, game.players, _paid(game), game)
    return key


def _paid(game: Game) -> Worth | None:
    if not game.done:
        return None
    paid = [game.rewards.get(player, 0.0) for player in range(game.players)]
    return (paid[0] if paid[0] >= 1 else paid[0] - 1,) if game.players == 1 else tuple(paid)


def _successors(key: Key) -> tuple[tuple[str, Key], ...]:
    here = _positions[key]
    if here.game is not None and here.worth is None:
        frozen, found = here.game.frozen(), []
        for move in legal_moves(here.game):
            twin = here.game.thawed(frozen)
            try:
                twin.step(move)
            except BrokenGame:
                continue
            found.append((move, _known(twin)))
        here.successors = tuple(found)
    here.game = None
    return here.successors


def _value(key: Key, depth: int) -> Worth:
    here = _positions[key]
    if here.worth is not None:
        return here.worth
    if (key, depth) in _values:
        return _values[key, depth]
    after = [_value(next_key, depth - 1) for _, next_key in _successors(key)] if depth > 0 else []
    best = max(after, key=lambda worth: worth[here.player]) if after else (0.0,) * here.players
    _values[key, depth] = tuple(DISCOUNT * worth for worth in best)
    return _values[key, depth]
