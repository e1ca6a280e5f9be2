"""One game of TextArena: started by a number, copied, and played without a trace in the process.

TextArena's own rules hold: who is to move, what each player is shown, what an illegal move costs, and the rewards at
the end. What differs: its random numbers are the game's own (`castaway_textarena.luck`), what it prints is dropped, and
an error in its code does not leave it half way through a step.
"""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from typing import Any

from castaway.config.errors import CastawayError
from castaway_textarena.catalogue import check, players_of, textarena
from castaway_textarena.luck import State, drawing_from, seeded

Shown = tuple[int, str, str]
"""Something that a player was shown: the sender (-1 for the game), the text, and TextArena's name of its kind."""


Frozen = bytes | Any
"""A copy of TextArena's game."""


class BrokenGame(Exception):
    """TextArena's code raised an error; the game is as it was before the step."""


class Game:
    """A game in progress."""

    def __init__(self, name: str, seed: int, players: int | None = None) -> None:
        """Start a game.

        Args:
            name: one of `castaway_textarena.catalogue.games`.
            seed: decides the start, and all that chance does later.
            players: how many play; by default the usual number.

        Raises:
            CastawayError: the game cannot be played here, or does not start.
        """
        check(name)
        self.name, self.players = name, players or players_of(name)
        self.refused = 0
        """Number of moves that TextArena called invalid."""
        self._shown: list[tuple[Shown, ...]] = [()] * self.players
        self._luck: State = seeded(seed)
        try:
            self._run(lambda: self._start(seed))
        except BrokenGame as error:
            raise CastawayError(f"the game {name} does not start with {self.players} players: {error}") from None

    def _start(self, seed: int) -> None:
        self.env: Any = textarena().make(f"{self.name}-raw")
        self.env.reset(num_players=self.players, seed=seed)

    def _run(self, play: Callable[[], object]) -> None:
        """Let TextArena's code run with the game's own random numbers, silently."""
        with drawing_from(self._luck) as after, redirect_stdout(io.StringIO()):
            try:
                play()
            except Exception as error:
                raise BrokenGame(_told(error)) from None
        self._luck = after[0]
        self._collect()

    def _collect(self) -> None:
        """Take what TextArena has to show; it would be shown to one player at a time, in a call that clears it."""
        for player, waiting in self.env.state.observations.items():
            if waiting and 0 <= player < self.players:
                self._shown[player] += tuple(_as_shown(*one) for one in waiting)
            self.env.state.observations[player] = []

    @property
    def player(self) -> int:
        """Who is to move, from 0."""
        return int(self.env.state.current_player_id)

    @property
    def done(self) -> bool:
        """Whether TextArena has ended the game."""
        return bool(self.env.state.done)

    @property
    def rewards(self) -> Mapping[int, float]:
        """What TextArena pays each player at the end; empty before.

        One of its games mixes up reward and reason, after an invalid move; that pays -1, as in the others.
        """
        paid = (self.env.state.rewards or {}) if self.done else {}
        return {int(who): float(amount) if isinstance(amount, int | float) else -1.0 for who, amount in paid.items()}

    @property
    def reason(self) -> str:
        """Why the game ended, in TextArena's words."""
        return str(self.env.state.game_info.get(0, {}).get("reason", "")).replace("\n", " ")

    def shown(self, player: int) -> tuple[Shown, ...]:
        """All that a player was shown since the start, its own moves included."""
        return self._shown[player]

    def step(self, text: str) -> bool:
        """Let the player that is to move say `text`; returns whether TextArena took it as a valid move.

        Raises:
            BrokenGame: TextArena's code fails on it; the game is as it was before.
        """
        before, taken = self.frozen(), [False]
        try:
            self._run(lambda: taken.append(_say(self.env, text)))
        except BrokenGame:
            self.env = _env(before)
            raise
        self.refused += not taken[-1]
        return taken[-1]

    def accepted(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Those of the texts that TextArena takes as valid moves now; each is tried on a copy of its own.

        A text that makes TextArena's code fail is no move.
        """
        frozen, found = self.frozen(), []
        with drawing_from(self._luck), redirect_stdout(io.StringIO()):
            for text in texts:
                with suppress(Exception):
                    if _say(_env(frozen), text):
                        found.append(text)
        return tuple(found)

    def frozen(self) -> Frozen:
        """The game at this moment, from which `thawed` makes copies; bytes are quicker than copying each object."""
        try:
            return pickle.dumps(self.env)
        except Exception:
            # Some games hold functions, which cannot be written as bytes.
            return copy.deepcopy(self.env)

    def thawed(self, frozen: Frozen) -> Game:
        """A copy of the game as it was when it gave `frozen`; both go on with the same random numbers."""
        twin = copy.copy(self)
        twin.env = _env(frozen)
        twin._shown = list(self._shown)
        return twin


def _env(frozen: Frozen) -> Any:
    return pickle.loads(frozen) if isinstance(frozen, bytes) else copy.deepcopy(frozen)


def _say(env: Any, text: str) -> bool:
    """Let TextArena's code take a text; returns whether it called it a valid move.

    Raises:
        RuntimeError: all players are out, and the game does not end: TextArena would look for the next one for ever.
    """
    state, refused = env.state, list[bool]()
    judge, turn = type(state).set_invalid_move, type(state).step

    def noted(*args: Any, **named: Any) -> Any:
        refused.append(True)
        return judge(state, *args, **named)

    def turned(*args: Any, **named: Any) -> Any:
        if not state.done and len(set(getattr(state, "elimination_order", ()))) >= state.num_players:
            raise RuntimeError("all players are out, and the game does not end")
        return turn(state, *args, **named)

    state.set_invalid_move, state.step = noted, turned
    try:
        env.step(text)
    finally:
        for name in ("set_invalid_move", "step"):
            state.__dict__.pop(name, None)
    return not refused


def _as_shown(sender: Any, text: Any, kind: Any) -> Shown:
    """An observation of TextArena; where two of its games mix up sender and kind, it is a player's own move."""
    known = isinstance(sender, int)
    return (int(sender) if known else -1), str(text), getattr(kind, "name", "PLAYER_ACTION")


def _told(error: Exception) -> str:
    """An error of TextArena's code on one line."""
    if isinstance(error, SyntaxError) and "f-string" in str(error) and sys.version_info < (3, 12):
        return "TextArena's file for it needs Python 3.12 or newer"
    return f"TextArena raises {type(error).__name__}: {error}".replace("\n", " ")
