"""The table of who wins against whom."""

from castaway.envs.marooned.actions import refuse
from castaway.envs.marooned.decisions import Script
from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import worker
from castaway.tools.marooned.balance import MATCHES, balance_table, blind_voter, framer


def play(seed: int, traitor: Script, crew: Script) -> Game:
    """A game of which every action was legal."""
    game = Game(load_scenario("skiff"), seed)
    while not game.over:
        chosen = {}
        for sailor in game.world.living:
            seen = game.observation(sailor.name)
            chosen[sailor.name] = (traitor if sailor.role == "traitor" else crew)(seen).action
            assert refuse(seen, chosen[sailor.name]) is None
        game.step(chosen)
    return game


def test_the_same_games_give_the_same_table_in_any_number_of_processes() -> None:
    one = balance_table("skiff", 4)
    assert one == balance_table("skiff", 4, processes=2) and all(name in one for name in MATCHES)


def test_the_framer_frames_and_the_blind_agree() -> None:
    assert any(sailor.framed for sailor in play(1, framer, worker).world.sailors.values())
    assert any("ejected" in clue.text for clue in play(1, blind_voter, blind_voter).world.clues)
