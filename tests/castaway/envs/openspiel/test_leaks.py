"""What a player is shown and allowed depends on nothing that it cannot know."""

from typing import get_args

import pyspiel
import pytest

from castaway.envs.openspiel.games import GAMES, Game, Rendering, load_variant, observe
from castaway.envs.openspiel.prompting import messages
from tests.castaway.envs.openspiel.twins import HIDDEN, NAMED, twins

IN_THE_DARK = [(game, variant) for game in GAMES if game.name in HIDDEN for variant in range(len(game.variants))]


@pytest.mark.parametrize(("game", "variant"), IN_THE_DARK, ids=lambda value: getattr(value, "name", value))
def test_states_that_a_player_cannot_tell_apart_look_the_same(game: Game, variant: int) -> None:
    for player, state, twin in twins(game.name, variant, 40):
        assert str(state) != str(twin)  # so this test could fail
        for rendering in get_args(Rendering):
            one, other = (observe(game, variant, player, seen, rendering) for seen in (state, twin))
            assert one == other and messages(one) == messages(other)


def test_every_game_in_the_dark_has_twins_and_no_other_does() -> None:
    for game in GAMES:
        for variant in range(len(game.variants)):
            information = load_variant(game, variant).get_type().information
            perfect = information == pyspiel.GameType.Information.PERFECT_INFORMATION
            # Goofspiel takes turns, and the second mover must not see the first bid.
            assert (game.name in HIDDEN) == (not perfect or game.name == "goofspiel")


def test_the_history_is_told_only_where_nothing_is_hidden() -> None:
    assert not {game.name for game in GAMES if game.open} & set(HIDDEN)
    for player, state, _ in twins("euchre", 0, 3):
        assert observe(NAMED["euchre"], 0, player, state).history == ()
