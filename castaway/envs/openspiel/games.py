"""The games of OpenSpiel: their rules in a line, their variants, what a player sees, and what success is.

**Text.** A player is shown `observation_string(player)`, or `information_state_string(player)` if a game has no such
text or leaves the bets out of it. It is never shown `str(state)`, which contains the hands of all players.

**Simultaneous moves** (goofspiel) are made one after the other, through OpenSpiel's turn-based wrapper. The texts above
do not show the second player what the first has chosen.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

import pyspiel
from ruamel.yaml import YAML

_CELLS = re.compile("[.+xoXO]{2,}")
# OpenSpiel writes this for the fifth bid of euchre, which names any other suit and is heard by all; before the first
# bid, chance draws the dealer, 20 cards and the card turned up.
_HIDES_TRUMPS, _FIFTH_BID = "Pick up!", 26

Rendering = Literal["full", "compact", "assisted"]  # see `castaway.envs.openspiel.prompting`


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    base_rate: float  # success rate of a random player among random ones, 0 to 1, over 2,000 episodes
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)  # OpenSpiel's game parameters


@dataclass(frozen=True, slots=True)
class Game:
    name: str
    line: str  # the rules
    variants: tuple[Variant, ...]
    title: str = ""  # what people call the game, if not by its name
    further: str = ""  # what the full rendering adds to the rules; `{komi}` is a parameter
    sides: tuple[str, ...] = ()  # what the text of a state calls each seat; empty if it numbers the players from 0
    aim: Literal["gain", "first"] = "gain"
    """`gain`: a return above 0 (a win, money, the team's points); `first`: a higher return than every other player."""
    shows: Literal["observation", "information"] = "observation"  # OpenSpiel's text that a player is shown
    open: bool = False  # whether the game has perfect information and no chance events
    board_only: bool = False  # whether OpenSpiel's text goes on after the board, a FEN, with what nobody can see there
    by_target: bool = False
    """Whether the menu goes by the cells that are moved to; in OpenSpiel's order the last move wins too often."""
    dense: bool = False
    """Whether OpenSpiel writes a row's cells without spaces; they are inserted, so that a cell is one word."""

    def side(self, seat: int) -> str:
        return self.sides[seat] if self.sides else f"player {seat}"

    def text(self, state: Any, seat: int) -> str:
        shown = state.observation_string if self.shows == "observation" else state.information_state_string
        text = str(shown(seat)).replace("][", "]\n[").strip("\n")
        if self.board_only:
            text = text.split()[0]
        if _HIDES_TRUMPS in text:
            text = text.replace(_HIDES_TRUMPS, state.action_to_string(state.history()[_FIFTH_BID]))
        if self.dense:
            text = _CELLS.sub(lambda cells: f" {' '.join(cells.group())}", text)
        return "\n".join(line.rstrip() for line in text.splitlines())

    def result(self, returns: Sequence[float], seat: int, most: float) -> float:
        """The result of a seat from 0 to 1, 0.5 for a draw; `most` is the largest absolute return of the game."""
        own = returns[seat]
        if self.aim == "gain":
            return 0.5 + own / (2 * most)
        others = [amount for number, amount in enumerate(returns) if number != seat]
        return sum(1.0 if own > amount else 0.5 if own == amount else 0.0 for amount in others) / len(others)

    def success(self, returns: Sequence[float], seat: int) -> bool:
        """Whether a seat has reached the aim of the game. Neither a draw nor a shared first place is a success."""
        if self.aim == "gain":
            return returns[seat] > 0
        return all(returns[seat] > amount for number, amount in enumerate(returns) if number != seat)


@cache
def load_variant(game: Game, variant: int) -> Any:
    parameters = dict(game.variants[variant].parameters)
    loaded = pyspiel.load_game(game.name, parameters)
    if loaded.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.load_game_as_turn_based(game.name, parameters)
    return loaded


def player_count(game: Game, variant: int) -> int:
    return int(load_variant(game, variant).num_players())


def largest_return(loaded: Any) -> float:
    return max(abs(loaded.min_utility()), abs(loaded.max_utility()))


def position(game: Game, variant: int, history: Sequence[int]) -> Any:
    state = load_variant(game, variant).new_initial_state()
    for action in history:
        state.apply_action(action)
    return state


@dataclass(frozen=True, slots=True)
class Observation:
    game: Game
    variant: int
    seat: int
    text: str  # the state, as this player may see it
    moves: tuple[str, ...]
    numbers: tuple[int, ...]  # OpenSpiel's numbers of the legal moves
    history: tuple[int, ...]  # all moves so far, in a game with perfect information; empty in others
    rendering: Rendering = "full"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.game.variants[self.variant].parameters

    @property
    def side(self) -> str:
        return self.game.side(self.seat)


def observe(game: Game, variant: int, seat: int, state: Any, rendering: Rendering = "full") -> Observation:
    """Make the observation of the player in `seat`, which must be the one to move, from OpenSpiel's `state`."""
    named = [(state.action_to_string(seat, number), number) for number in state.legal_actions()]
    if game.by_target:
        named.sort(key=lambda move: move[0][::-1])  # in `axb3`, the row and then the column
    return Observation(
        game=game,
        variant=variant,
        seat=seat,
        text=game.text(state, seat),
        moves=tuple(name for name, _ in named),
        numbers=tuple(number for _, number in named),
        history=tuple(state.history()) if game.open else (),
        rendering=rendering,
    )


class MoveValue(NamedTuple):
    worth: float  # higher is better; only comparable within one menu
    why: str  # the reason in a word or two, short enough for a small model to learn


def read(name: str) -> Any:
    return YAML(typ="safe").load((resources.files("castaway.envs.openspiel") / f"{name}.yaml").read_text("utf-8"))


def _catalogue() -> Iterator[Game]:
    for name, entry in read("catalogue").items():
        variants = tuple(Variant(called, **one) for called, one in entry.pop("variants").items())
        yield Game(name, variants=variants, sides=tuple(entry.pop("sides", ())), **entry)


GAMES = tuple(_catalogue())  # the games of `catalogue.yaml`, in its order
