"""The `game` section of a run of this task in params.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from castaway.config.section import Section
from castaway_textarena.environment import Others
from castaway_textarena.observation import Rendering


class TextArenaParams(Section):
    """One game of TextArena, how it is shown, and who plays it without being trained."""

    game: str
    """TextArena's name of the game, such as `TicTacToe-v0`; `python -m castaway_textarena names` lists them."""
    rendering: Rendering = "full"
    """`full` for instruct models; `compact`, without rules, for tiny ones."""
    players: Annotated[int, Field(ge=1, le=8)] | None = None
    """How many play; by default the usual number."""
    others: Others = "random"
    """How the others play in evaluation, and in training without self-play."""
    self_play: bool = False
    """Whether training is against earlier policies; evaluation is against `others` in any case."""
    demonstrator: Literal["search", "random", "served"] = "search"
    """Who demonstrates: a search, or what is known of the game; a random player; or the model of `served`."""
    served: str | None = None
    """The demonstrator's server and model, such as `http://127.0.0.1:8000/v1 model`, if it is `served`."""
    search_depth: Annotated[int, Field(ge=1, le=40)] = 2
    """How many moves a search looks ahead, in games without chance and secrets."""
    turns: Annotated[int, Field(ge=1, le=2000)] = 200
    """After so many moves of all players a game is cut short, and nobody is paid."""
