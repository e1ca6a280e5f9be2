"""Those in the other seats."""

from random import Random

import pytest

from castaway.envs.openspiel.catalogue import GAMES
from castaway.envs.openspiel.environment import OpenSpielEnvironment
from castaway.envs.openspiel.games import Game, load_variant
from castaway.envs.openspiel.ids import Episode, task_id_of
from castaway.envs.openspiel.opponents import Description, Search, Uniform, make_opponent, opponent_named


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
@pytest.mark.parametrize("description", [Uniform(), Search(6)])
def test_an_opponent_plays_the_same_by_the_same_seed(game: Game, description: Description) -> None:
    loaded = load_variant(game, 0)
    histories = []
    for _ in range(2):
        chance, opponent = Random(5), make_opponent(description, loaded, Random(7))
        state = loaded.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                state.apply_action(chance.choice(state.legal_actions()))
            else:
                move = opponent(state)
                assert move in state.legal_actions()
                state.apply_action(move)
        histories.append(state.history())
    assert histories[0] == histories[1]


def test_a_search_of_hundred_simulations_beats_a_random_player() -> None:
    environment, random, won = OpenSpielEnvironment(("mcts-100",)), Random(3), 0
    for number in range(60):
        environment.reset(task_id_of(Episode(0, 0, number % 2, 0, number)), "mcts-100")
        while not environment.done:
            (prompt,) = environment.prompts()
            environment.step({"player": random.choice(environment.rules.legal_actions(prompt.observation))})
        won += environment.outcome().success
    assert won <= 10


@pytest.mark.parametrize("name", ["", "Random", "mcts", "mcts-", "mcts-1", "mcts-0", "mcts--5", "mcts-x", "solver-5"])
def test_an_opponent_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"there is no opponent '{name}'"):
        opponent_named(name)


def test_an_opponent_is_named_by_kind_and_simulations() -> None:
    assert (opponent_named("random"), opponent_named("mcts-10")) == (Uniform(), Search(10))
